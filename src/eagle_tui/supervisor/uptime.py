"""Since when a run goes on, and how much of that time nothing of it was up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eagle_tui.clock import Clock
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import recall
from eagle_tui.supervisor.store import Store

LEAST_S = 5.0
"""A supervisor that was killed between two phases is there again sooner: the run was not down."""
Span = tuple[float, float]
"""From, to; Unix seconds."""


def within(spans: Iterable[Span], start: float, end: float) -> float:
    """Seconds of the spans that lie in [start, end]; they do not overlap."""
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in spans)


class Uptime:
    """Kept in the state file, over every supervisor's end."""

    def __init__(self, run: RunDir, store: Store, clock: Clock) -> None:
        """Begins with the run: with its first supervisor, or, after the state file was lost, with
        the first attempt that left an event log."""
        self._store, self._clock = store, clock
        self._began = clock.wall(), clock.monotonic()
        started = store.get("started")
        if started is None:
            started = recall.began(run) or clock.wall()
            store.put("started", started)
        self.started = float(started)
        self._down: Sequence[Span] = [(float(a), float(b)) for a, b in store.get("was_down") or ()]

    def woke(self, last_seen: float, now: float) -> None:
        """A supervisor began at Unix time `now` and found nothing alive; until `last_seen`
        something of the run still was."""
        begin = max(last_seen, self.started)
        if now - begin >= LEAST_S:
            self._down = [*self._down, (begin, now)]
            self._store.put("was_down", self._down)

    def now(self) -> float:
        """Unix time, going on evenly from this supervisor's beginning, whatever is done to the wall
        clock meanwhile."""
        wall, mono = self._began
        return wall + self._clock.monotonic() - mono

    def elapsed_s(self, until: float) -> float:
        """Seconds from the run's beginning to `until` in which it was up."""
        return max(0.0, until - self.started - self.down_s(until))

    def down_s(self, until: float) -> float:
        """Seconds in which it was not."""
        return within(self._down, self.started, until)
