"""The KV token pool: how full it is, and whether one more request may join.

As in SGLang, nobody's whole ``max_new_tokens`` is reserved: of what the running requests may still
write, only a share is expected. The share falls while decoding goes well and jumps back to 1
after a retraction, so that the same requests are not thrown out again at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: SGLang's defaults: first share, least share, and the number of decode steps between them.
FIRST_RATIO, LEAST_RATIO, DECAY_STEPS = 0.7, 0.098, 600
#: Rows are padded to the longest, so rows x longest may be so many times the pool and no more:
#: otherwise one long request beside many short ones would take memory nobody planned for.
PADDING = 3
#: A request is never expected to write more than this many new tokens.
CLIP_NEW_TOKENS = 4096


class Sized(Protocol):
    """A request, as far as the pool cares."""

    @property
    def length(self) -> int: ...
    @property
    def remaining(self) -> int: ...


class TokenBudget:
    """Accounts for ``capacity`` tokens of KV cache."""

    def __init__(self, capacity: int, conservativeness: float = 1.0) -> None:
        self.capacity = capacity
        self._first = min(1.0, FIRST_RATIO * conservativeness)
        self._least = min(1.0, LEAST_RATIO * conservativeness)
        self.ratio = self._first

    def used(self, running: Sequence[Sized]) -> int:
        """Tokens that the running requests hold."""
        return sum(request.length for request in running)

    def admits(self, request: Sized, running: Sequence[Sized], admitted: Sequence[Sized]) -> bool:
        """Whether ``request`` may join those that run and those just admitted.

        A request alone is always admitted: its length was cut to the pool before.
        """
        if not running and not admitted:
            return True
        expected = sum(min(r.remaining, CLIP_NEW_TOKENS) * self.ratio for r in running)
        promised = sum(r.length + min(r.remaining, CLIP_NEW_TOKENS) for r in admitted)
        free = self.capacity - self.used(running) - expected - promised
        if request.length + min(request.remaining, CLIP_NEW_TOKENS) > free:
            return False
        return self._padded([*running, *admitted, request]) <= self.capacity * PADDING

    def fits_step(self, running: Sequence[Sized]) -> bool:
        """Whether every running request can write the token of its next step."""
        return (
            self.used(running) <= self.capacity and self._padded(running) <= self.capacity * PADDING
        )

    @staticmethod
    def _padded(rows: Sequence[Sized]) -> int:
        return len(rows) * max((row.length for row in rows), default=0)

    def decoded(self) -> None:
        """A decode step went well."""
        self.ratio = max(self._least, self.ratio - (self._first - self._least) / DECAY_STEPS)

    def retracted(self) -> None:
        """A request had to go back to the queue."""
        self.ratio = 1.0
