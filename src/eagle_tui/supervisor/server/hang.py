"""Whether a server hangs: it has work, and neither its counters nor its scheduler move. Pure.

`/health` says nothing here: it answers while the scheduler is stuck, and fails while a long prompt
is read. A busy prefill moves a counter, or the time stamp of the scheduler's snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable


class HangWatch:
    """Fed with each look at the server."""

    def __init__(self, now: float) -> None:
        self._mark: Hashable = None
        self._moved_at = now

    def idle(self, now: float) -> None:
        """It has nothing to do."""
        self._moved_at = now

    def see(self, mark: Hashable, now: float) -> None:
        """It has work, and shows these counters; None: it does not answer at all."""
        if mark is not None and mark != self._mark:
            self._mark = mark
            self._moved_at = now

    def still_s(self, now: float) -> float:
        """Seconds since it last moved, or last had nothing to do."""
        return now - self._moved_at
