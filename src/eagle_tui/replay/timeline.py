"""The time of a replay: it stands, or runs on at some speed. Pure but for the clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from eagle_tui.clock import Clock
from eagle_tui.place import share_of, time_of

SPEEDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""What the speed keys go through."""
FASTEST = 86400.0


class Timeline:
    """A position between `start` and `end` (Unix seconds)."""

    def __init__(
        self, clock: Clock, start: float, end: float, at: float, speed: float = 60.0
    ) -> None:
        self._clock = clock
        self.start, self.end = start, max(start, end)
        self.speed = min(max(speed, 1e-3), FASTEST)
        self._at = min(max(at, self.start), self.end)
        self._since: float | None = None
        """Monotonic time from which on it runs; None: it stands."""
        self.jumps = 0
        """How often the position was set: what was collected before one does not go on."""

    @property
    def playing(self) -> bool:
        """Whether it runs on; at the end it stands."""
        return self._since is not None and self.now() < self.end

    def now(self) -> float:
        """The position, Unix seconds."""
        if self._since is None:
            return self._at
        return min(self.end, self._at + (self._clock.monotonic() - self._since) * self.speed)

    def play(self) -> None:
        """Run on; from the end, begin anew."""
        if self.now() >= self.end:
            self.seek(self.start)
        self._at, self._since = self.now(), self._clock.monotonic()

    def stop(self) -> None:
        """Stand."""
        self._at, self._since = self.now(), None

    def toggle(self) -> None:
        """Run or stand."""
        if self.playing:
            self.stop()
        else:
            self.play()

    def seek(self, at: float) -> None:
        """Set the position; it goes on as it was, running or standing."""
        running = self.playing
        self._at, self._since = min(max(at, self.start), self.end), None
        self.jumps += 1
        if running:
            self._since = self._clock.monotonic()

    def step(self, by: float) -> None:
        """Stand, `by` seconds further."""
        self.stop()
        self.seek(self._at + by)

    def set_speed(self, speed: float) -> None:
        """Seconds of the run per second."""
        running = self.playing
        self.stop()
        self.speed = min(max(speed, 1e-3), FASTEST)
        if running:
            self.play()

    def faster(self) -> None:
        """The next higher speed."""
        self.set_speed(SPEEDS[min(bisect_right(SPEEDS, self.speed), len(SPEEDS) - 1)])

    def slower(self) -> None:
        """The next lower speed."""
        self.set_speed(SPEEDS[max(bisect_left(SPEEDS, self.speed) - 1, 0)])


class ReplayClock:
    """A clock whose wall time is the replay's; monotonic seconds are the machine's."""

    def __init__(self, clock: Clock, timeline: Timeline) -> None:
        self._clock = clock
        self._timeline = timeline

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def wall(self) -> float:
        return self._timeline.now()


def neighbour(times: Sequence[float], now: float, forward: bool) -> int | None:
    """Which of the sorted `times` is the next one after (or before) `now`; None when there is
    none."""
    index = bisect_right(times, now) if forward else bisect_left(times, now) - 1
    return index if 0 <= index < len(times) else None


def parse_at(text: str, start: float, end: float) -> float:
    """A time of the run as people write it (see `eagle_tui.place`): a share goes from its start to
    its end, `-2h` and times of day from its end. ValueError with a sentence."""
    share = share_of(text)
    return time_of(text, end) if share is None else start + (end - start) * share
