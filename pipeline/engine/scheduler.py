"""Who runs next: queue, token pool, admission, retraction, finish reasons. No torch, no clock of
its own, no thread.

The policy is SGLang's, in small. A waiting request is admitted when its tokens and what the
running ones are still expected to write fit the pool; new requests are prefilled before the
running ones decode on; when the pool runs full all the same, the request with the least output
goes back to the queue and is computed again later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Protocol

from .kvpool import TokenBudget
from .reasoning import ReasoningMarkers, reasoning_tokens
from .state import ABORTED, ABORTED_IN_QUEUE, QUEUE_FULL, Finish, Request, Times, Update
from .stats import Counters, Load

#: A plain request reports to SGLang's front end every so many tokens.
REPORT_TOKENS = 50


class Stepper(Protocol):
    """The model as the scheduler sees it: rows 0..n-1 are the running requests in order."""

    def prefill(self, first_row: int, requests: list[Request]) -> list[int]: ...
    def decode(self, requests: list[Request]) -> list[int]: ...
    def move_row(self, source: int, target: int, length: int) -> None: ...


class Scheduler:
    """Requests from submission to their one final `Update`.

    Every public method runs in the model thread. Those that can end requests return the news.
    """

    def __init__(
        self,
        stepper: Stepper,
        *,
        budget: TokenBudget,
        max_running: int,
        max_queued: int | None,
        prefill_tokens: int,
        markers: ReasoningMarkers | None,
        clock: Callable[[], float],
        counters: Counters,
    ) -> None:
        self._stepper = stepper
        self._budget = budget
        self._max_running = max_running
        self._max_queued = max_queued
        self._prefill_tokens = prefill_tokens
        self._markers = markers
        self._clock = clock
        self.counters = counters
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    # ---- what comes in -------------------------------------------------------------------

    def submit(self, request: Request) -> list[Update]:
        """Queue a request; refused at once when ``max_queued`` others already wait."""
        if self._max_queued is not None and len(self.waiting) >= self._max_queued:
            return [self._end(request, QUEUE_FULL)]
        self.waiting.append(request)
        self._count()
        return []

    def abort(self, prefix: str) -> list[Update]:
        """Abort every request whose id begins with ``prefix`` (SGLang's scheduler does so).

        Those that wait end now; a retracted one may lose part of its output (`REPORT_TOKENS`).
        Those that run are marked and end with all their output before the next step.
        """
        # Every id begins with "": an empty one, which SGLang allows, stands for itself only.
        if not prefix:
            return self._abort(lambda request: request.prompt.rid == "")
        return self._abort(lambda request: request.prompt.rid.startswith(prefix))

    def abort_all(self) -> list[Update]:
        """Abort everything that waits or runs."""
        return self._abort(lambda request: True)

    def _abort(self, chosen: Callable[[Request], bool]) -> list[Update]:
        self.counters.aborts += 1
        gone = [request for request in self.waiting if chosen(request)]
        self.waiting = deque(request for request in self.waiting if not chosen(request))
        for request in self.running:
            if chosen(request):
                request.abort_wanted = True
        self._count()
        return [self._end(request, ABORTED_IN_QUEUE) for request in gone]

    def retract_all(self) -> None:
        """Put every running request back at the head of the queue, output kept (pause mode
        ``retract``). One that was marked to be aborted is answered by the next `step`."""
        while self.running:
            self._retract(len(self.running) - 1)
        self._count()

    # ---- one turn ------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `step` would do something."""
        return bool(self.running or self.waiting)

    def step(self) -> list[Update]:
        """Reap aborted requests, then prefill what can be admitted or decode one step."""
        news = self._reap()
        admitted = self._admit()
        if admitted:
            news += self._prefill(admitted)
        elif self.running:
            self._make_room()
            news += self._decode()
        self._count()
        return news

    def _reap(self) -> list[Update]:
        news = []
        for request in [r for r in self.running if r.abort_wanted]:
            self._leave(self.running.index(request))
            news.append(self._end(request, ABORTED))
        marked = [r for r in self.waiting if r.abort_wanted]
        for request in marked:
            self.waiting.remove(request)
            news.append(self._end(request, ABORTED_IN_QUEUE))
        return news

    def _admit(self) -> list[Request]:
        admitted: list[Request] = []
        longest = 0
        while self.waiting and len(self.running) + len(admitted) < self._max_running:
            request = self.waiting[0]
            padded = max(longest, request.length) * (len(admitted) + 1)
            if admitted and padded > self._prefill_tokens:
                break
            if not self._budget.admits(request, self.running, admitted):
                break
            longest = max(longest, request.length)
            admitted.append(self.waiting.popleft())
        return admitted

    def _prefill(self, admitted: list[Request]) -> list[Update]:
        began = self._clock()
        first_row = len(self.running)
        tokens = self._stepper.prefill(first_row, admitted)
        self.running += admitted
        now = self._clock()
        self.counters.prefill_tokens += sum(request.length for request in admitted)
        self.counters.prefill_seconds += now - began
        for request in admitted:
            request.started = request.started or began
            request.prefilled = request.prefilled or now
        return self._take(admitted, tokens, now)

    def _decode(self) -> list[Update]:
        began = self._clock()
        batch = list(self.running)
        tokens = self._stepper.decode(batch)
        now = self._clock()
        self.counters.decode_tokens += len(batch)
        self.counters.moments.add(len(batch), now - began)
        self._budget.decoded()
        return self._take(batch, tokens, now)

    def _take(self, batch: list[Request], tokens: list[int], now: float) -> list[Update]:
        """Give each request its new token; the finished ones leave."""
        news: list[Update] = []
        for request, token in zip(batch, tokens, strict=True):
            if request.prompt.max_new_tokens > 0:
                request.output_ids.append(token)
            if request.first_token is None:
                request.first_token = now
                waited = now - request.received
                self.counters.time_to_first_token[request.prompt.stream].observe(waited)
            finish = request.find_stop()
            if finish is not None:
                self._leave(self.running.index(request))
                news.append(self._end(request, finish))
            elif request.prompt.stream and self._due(request):
                news.append(self._news(request))
        return news

    @staticmethod
    def _due(request: Request) -> bool:
        """A stream gets its first token, then every ``stream_interval``-th."""
        return (len(request.output_ids) - 1) % request.params.stream_interval == 0

    # ---- rows and the pool ---------------------------------------------------------------

    def _leave(self, row: int) -> None:
        """Take a row out. The longest row behind it moves into its place, and the last row into
        that one's: so the long rows gather in front, where attention can treat them apart."""
        last = len(self.running) - 1
        if row != last:
            longest = max(range(row + 1, last + 1), key=lambda i: self.running[i].length)
            self._move(longest, row)
            if longest != last:
                self._move(last, longest)
        self.running.pop()

    def _move(self, source: int, target: int) -> None:
        moved = self.running[source]
        self._stepper.move_row(source, target, moved.length)
        self.running[target] = moved

    def _make_room(self) -> None:
        """Retract until one more token for every row fits. One request alone always fits:
        `check_prompt` cut its length to the pool."""
        while len(self.running) > 1 and not self._budget.fits_step(self.running):
            victim = min(
                range(len(self.running)),
                key=lambda row: (
                    len(self.running[row].output_ids),
                    -len(self.running[row].prompt.input_ids),
                ),
            )
            self._retract(victim)
            self.counters.retractions += 1
            self._budget.retracted()

    def _retract(self, row: int) -> None:
        request = self.running[row]
        self._leave(row)
        request.retractions += 1
        self.waiting.appendleft(request)

    # ---- what goes out -------------------------------------------------------------------

    def _end(self, request: Request, finish: Finish) -> Update:
        if finish.served:
            stream = request.prompt.stream
            self.counters.requests[stream] += 1
            self.counters.prompt_tokens[stream] += len(request.prompt.input_ids)
            self.counters.generated_tokens[stream] += len(request.output_ids)
            self.counters.latency[stream].observe(self._clock() - request.received)
            return self._news(request, finish, request.final_text(finish))
        # What SGLang's front end knew when a retracted request was aborted: all of a stream, of
        # a plain request what came with its last report.
        known = len(request.output_ids)
        if not request.prompt.stream:
            known -= known % REPORT_TOKENS
        output = request.output_ids[:known]
        return Update(
            prompt=request.prompt,
            output_ids=tuple(output),
            text=request.detokenizer.finish(output),
            finish=finish,
            retractions=request.retractions,
            reasoning_tokens=0,
            times=Times(received=request.received, finished=self._clock()),
        )

    def _news(
        self, request: Request, finish: Finish | None = None, text: str | None = None
    ) -> Update:
        return Update(
            prompt=request.prompt,
            output_ids=tuple(request.output_ids),
            text=request.detokenizer.feed(request.output_ids) if text is None else text,
            finish=finish,
            retractions=request.retractions,
            reasoning_tokens=reasoning_tokens(
                request.output_ids, self._markers, required=request.prompt.require_reasoning
            ),
            times=Times(
                received=request.received,
                started=request.started,
                prefilled=request.prefilled,
                first_token=request.first_token,
                finished=None if finish is None else self._clock(),
            ),
        )

    def _count(self) -> None:
        c = self.counters
        c.running, c.queued = len(self.running), len(self.waiting)
        c.used_tokens = self._budget.used(self.running)
        # Retracted requests stand at the head of the queue, which may be thousands long.
        c.retracted_waiting = sum(1 for _ in takewhile(lambda r: r.retractions, self.waiting))
        c.new_token_ratio = self._budget.ratio

    def load(self, wall_time: float) -> Load:
        """A picture for /v1/loads."""
        c = self.counters
        moments = c.moments.as_list()
        return Load(
            timestamp=wall_time,
            running=c.running,
            waiting=c.queued,
            waiting_tokens=sum(request.length for request in self.waiting),
            used_tokens=c.used_tokens,
            retracted=c.retracted_waiting,
            prefill_tokens=c.prefill_tokens,
            prefill_us=int(c.prefill_seconds * 1e6),
            gen_throughput=c.gen_throughput,
            decode_moments=None if moments is None else tuple(moments),
        )
