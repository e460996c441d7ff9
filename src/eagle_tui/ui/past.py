"""The metrics that charts draw, over the window of time that they show.

History comes from the client when the window changes; after that each snapshot adds its own values,
so that a chart which goes along with now asks for nothing. Bounded: a metric is held in buckets of
about 1/800 of the window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eagle_tui import series
from eagle_tui.client_api import RunClient
from eagle_tui.protocol import HistoryPoint, Mark, Status
from eagle_tui.ui.window import Window, fitting, marks_between, older_mark

RESOLUTION = 800
"""Buckets per window: more than the columns of a chart in the widest terminal."""
LIVE_S = 1.0
"""Seconds that a snapshot speaks for."""
SLACK = 1.25
"""Kept beyond the window, so that buckets at its edge are whole."""


@dataclass
class Track:
    """One metric in buckets of `step_s`, aligned to the wall clock: number → [sum, weight]."""

    step_s: float
    buckets: dict[int, list[float]] = field(default_factory=dict)

    def add(self, t: float, value: float, seconds: float) -> None:
        """The metric was `value` from `t` on for `seconds`: into each bucket that this meets."""
        first = int(t // self.step_s)
        last = max(int((t + seconds - 1e-6) // self.step_s), first)
        weight = seconds / (last - first + 1)
        for number in range(first, last + 1):
            bucket = self.buckets.setdefault(number, [0.0, 0.0])
            bucket[0] += value * weight
            bucket[1] += weight

    def extend(self, points: Iterable[HistoryPoint], step_s: float) -> None:
        """Take points of the history, each speaking for `step_s`."""
        for point in points:
            self.add(point.t, point.mean, step_s)

    def values(self, end: float, step_s: float, columns: int) -> list[float | None]:
        """Time-weighted means of `columns` columns aligned to the wall clock, the last one that is
        whole at `end` last. None: a gap."""
        last = int(end // step_s) - 1
        first = last - columns + 1
        sums, weights = [0.0] * columns, [0.0] * columns
        low, high = int(first * step_s // self.step_s), int((last + 1) * step_s // self.step_s)
        for number in range(low, high + 1):
            bucket = self.buckets.get(number)
            if bucket is None:
                continue
            index = int((number + 0.5) * self.step_s // step_s) - first
            if 0 <= index < columns:
                sums[index] += bucket[0]
                weights[index] += bucket[1]
        return [s / w if w else None for s, w in zip(sums, weights, strict=True)]

    def forget(self, before: float) -> None:
        """Drop the buckets that end before that Unix time."""
        limit = int(before // self.step_s)
        if self.buckets and min(self.buckets) < limit:
            self.buckets = {number: b for number, b in self.buckets.items() if number >= limit}


class Past:
    """All tracks of the window in force, and its marks. One for the whole program."""

    def __init__(self) -> None:
        self.window = Window()
        self._fits = True
        """Whether the span still goes by how long the run has been; until it is zoomed."""
        self.marks: list[Mark] = []
        self.chosen: int | None = None
        """Id of the mark whose text is shown."""
        self._tracks: dict[str, Track] = {}
        self._whole: set[str] = set()
        """Metrics whose history was fetched for this window."""
        self._marks_wanted = True
        self._version = 0
        """Grows when anything but the newest values changes."""

    @property
    def step_s(self) -> float:
        """Seconds of a bucket of the tracks."""
        return self.window.span_s / RESOLUTION

    def track(self, name: str) -> Track:
        """The track of a metric, made on first use."""
        return self._tracks.setdefault(name, Track(self.step_s))

    def change(self, window: Window) -> bool:
        """Show another window; False when it is the one shown."""
        self._fits = False
        return self._change(window)

    def _change(self, window: Window) -> bool:
        if window == self.window:
            return False
        self.window = window
        self._tracks.clear()
        self.start_over()
        return True

    def start_over(self) -> None:
        """What is there may have gaps: everything is asked for again."""
        self._whole.clear()
        self._marks_wanted = True
        self._version += 1

    def rewind(self) -> None:
        """Time was set, as in a replay: what was collected may be of later."""
        self._tracks.clear()
        self.start_over()

    def lacks(self, names: Iterable[str]) -> bool:
        """Whether history or marks must be asked for before these metrics can be drawn whole."""
        return self._marks_wanted or any(name not in self._whole for name in names)

    def want_marks(self) -> None:
        """Something happened: there may be new marks."""
        self._marks_wanted = True

    async def load(self, client: RunClient, names: Iterable[str], now: float) -> None:
        """Fetch what `lacks` says. Raises ClientError; what was fetched until then is kept."""
        window = self.window
        begin, end = window.bounds(now)
        if self._marks_wanted:
            marks = await client.marks(begin)
            if window == self.window:
                self.marks, self._marks_wanted = marks, False
                self._version += 1
        until = None if window.follows else end
        for name in names:
            if name in self._whole:
                continue
            found = await client.history(name, begin, self.step_s, until)
            if window != self.window:
                return  # the window was changed meanwhile; its own load is on its way
            track = Track(self.step_s)
            track.extend(found.points, found.step_s)
            live = self._tracks.get(name)
            if live is not None and found.points:
                # What came meanwhile is newer than the history's last whole bucket.
                after = int((found.points[-1].t + found.step_s) // track.step_s)
                track.buckets |= {n: b for n, b in live.buckets.items() if n > after}
            self._tracks[name] = track if found.points or live is None else live
            self._whole.add(name)
            self._version += 1

    def live(self, status: Status) -> None:
        """A snapshot came: the tracks that go along with now grow by it."""
        if self._fits:
            run = status.run
            lived = None if run.elapsed_s is None else run.elapsed_s + run.down_s
            self._change(fitting(self.window, lived))
        if not self.window.follows or not self._tracks:
            return
        values = series.values(status)
        oldest = status.at - self.window.span_s * SLACK
        for name, track in self._tracks.items():
            value = values.get(name)
            if value is not None:
                track.add(status.at, value, LIVE_S)
            track.forget(oldest)

    def grid(self, now: float, columns: int) -> tuple[float, float, float]:
        """Begin and end of a chart of so many columns, aligned to the wall clock, and the seconds
        of a column."""
        step = self.window.span_s / columns
        end = self.window.shown(now)[1] // step * step
        return end - columns * step, end, step

    def state(self, now: float) -> tuple[object, ...]:
        """While this stays the same, a chart looks the same: it need not be drawn again."""
        return self._version, self.window, self.window.shown(now), self.chosen

    def values(self, name: str, now: float, columns: int) -> list[float | None]:
        """A metric over that grid. None: a gap."""
        _, end, step = self.grid(now, columns)
        # A moment more than `end`: a multiple of `step` may come out a bit below itself.
        return self.track(name).values(end + step / 2, step, columns)

    def marks_shown(self, now: float) -> list[Mark]:
        """The marks within the window, the oldest first."""
        return marks_between(self.marks, *self.window.bounds(now))

    def choose_mark(self, now: float) -> Mark | None:
        """Select the next older mark of the window (the newest first, then none again)."""
        shown = self.marks_shown(now)
        self.chosen = older_mark(shown, self.chosen)
        return next((mark for mark in shown if mark.id == self.chosen), None)
