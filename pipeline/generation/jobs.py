"""Prompts that wait for their response, and what was tried with each of them."""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Job:
    """One prompt without a final response."""

    index: int
    """Its place in the prompts file."""
    id: str
    attempt: int = 0
    """Requests sent for it by this worker."""
    tries: int = 0
    """Attempts that failed for another reason than a lost server."""
    rejections: int = 0
    """Answers 400 for no known reason."""
    losses: int = 0
    """Attempts whose server went away, or a router's worker."""
    refusals: int = 0
    """Times in a row that a server was too busy to take it."""
    repeats: dict[str, int] = field(default_factory=dict)
    """Whole answers by state that were not final."""
    so_far: array[int] | None = None
    """Tokens of an answer that was ended half-way, to be continued."""
    pieces: int = 0
    """Requests that `so_far` is made of."""
    saved: int = 0
    """Tokens of the answer that the journal holds."""
    raced: bool = False
    """Was sent again at once after a connection that the server had just closed."""

    def start_over(self) -> None:
        """Forget the tokens so far."""
        self.so_far = None
        self.pieces = 0


class JobQueue:
    """The waiting jobs of one dataset: those to send again first, then fresh ones in file order,
    then those that were put last.

    Memory: four bytes a fresh prompt.
    """

    def __init__(self, fresh: Iterable[int], begun: Iterable[Job] = ()) -> None:
        self._fresh = array("I", fresh)
        self._next = 0
        self._front: deque[Job] = deque(begun)
        self._later: list[tuple[float, int, Job]] = []
        self._last: deque[Job] = deque()
        self._serial = 0

    def left(self) -> int:
        """All that wait, due or not."""
        return len(self._front) + len(self._later) + self.fresh() + len(self._last)

    def fresh(self) -> int:
        """Those that no server was asked yet."""
        return len(self._fresh) - self._next

    def ready(self, now: float) -> int:
        """How many may be sent at monotonic time `now`."""
        while self._later and self._later[0][0] <= now:
            self._front.append(heapq.heappop(self._later)[2])
        return len(self._front) + self.fresh() + len(self._last)

    def take(self) -> Job | int:
        """The next one that `ready` counted: a job, or the place of a fresh prompt."""
        if self._front:
            return self._front.popleft()
        if not self.fresh():
            return self._last.popleft()
        index = self._fresh[self._next]
        self._next += 1
        return index

    def begun(self) -> Iterator[Job]:
        """Those that wait and were tried before."""
        yield from self._front
        yield from (job for _, _, job in self._later)
        yield from self._last

    def put(self, job: Job, due: float | None = None) -> None:
        """Back into the queue: to the front at once, or to be sent not before `due`."""
        if due is None:
            self._front.append(job)
            return
        self._serial += 1
        heapq.heappush(self._later, (due, self._serial, job))

    def put_last(self, job: Job) -> None:
        """Back into the queue, behind all that no server was asked yet."""
        self._last.append(job)
