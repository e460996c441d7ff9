"""The span of time that the charts show: zoom, scroll, back to now; axis labels and marks. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo

from eagle_tui.protocol import Mark

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
SPANS_S = (
    MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
    HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR,
    DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 56 * DAY,
)  # fmt: skip
"""What zooming steps through."""
DEFAULT_SPAN_S = 30 * MINUTE
MOVES = 120
"""A chart that goes along with now moves on so many times while its span passes: each move costs
the bytes of all its rows."""
SCROLL_SHARE = 0.25
"""Share of the window by which one key press scrolls."""
LABEL_GAP = 3
"""Cells that stay free between two labels of the axis."""
_TICKS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 172800, 604800,
)  # fmt: skip


@dataclass(frozen=True)
class Window:
    """A span that ends at a Unix time, or goes along with now (`end` None)."""

    span_s: float = DEFAULT_SPAN_S
    end: float | None = None

    @property
    def follows(self) -> bool:
        return self.end is None

    def bounds(self, now: float) -> tuple[float, float]:
        """Begin and end as Unix time."""
        end = now if self.end is None else self.end
        return end - self.span_s, end

    def shown(self, now: float) -> tuple[float, float]:
        """Begin and end of what a chart shows, moving on in steps where it goes along with now."""
        if self.end is not None:
            return self.bounds(now)
        step = self.span_s / MOVES
        end = now // step * step
        return end - self.span_s, end

    def zoomed(self, by: int, now: float) -> Window:
        """A span `by` steps longer (negative: shorter); the middle stays, and so does following."""
        nearest = min(range(len(SPANS_S)), key=lambda i: abs(math.log(SPANS_S[i] / self.span_s)))
        span = SPANS_S[min(max(nearest + by, 0), len(SPANS_S) - 1)]
        if self.end is None:
            return Window(span)
        return Window(span, self.end + (span - self.span_s) / 2)._until(now)

    def scrolled(self, steps: int, now: float, first: float | None = None) -> Window:
        """Moved by a quarter of the span per step, to the past when negative; never so far that
        nothing after `first` (Unix time of the first data) is left, and at now it follows again."""
        begin, end = self.bounds(now)
        step = max((end - begin) * SCROLL_SHARE, 1.0)
        moved = end + steps * step
        if first is not None and steps < 0:
            moved = max(moved, min(first + step, end))
        return replace(self, end=moved)._until(now)

    def to_now(self) -> Window:
        """The same span, going along with now."""
        return replace(self, end=None)

    def _until(self, now: float) -> Window:
        return replace(self, end=None) if self.end is not None and self.end >= now else self


def fitting(window: Window, elapsed_s: float | None) -> Window:
    """The window for a run of that age: a short one is not shown in a corner of half an hour."""
    if elapsed_s is None:
        return window
    span = next((span for span in SPANS_S if span >= elapsed_s), SPANS_S[-1])
    return replace(window, span_s=min(span, DEFAULT_SPAN_S))


def axis(start: float, end: float, cells: int, tz: tzinfo | None = None) -> str:
    """A line of local times under a chart of `cells` cells that shows `start` to `end`: each label
    begins at the cell of its time. Round times, as dense as the labels leave room."""
    if cells <= 0 or end <= start:
        return ""
    per_cell = (end - start) / cells
    tick = next((t for t in _TICKS_S if t / per_cell >= _width(t) + LABEL_GAP), _TICKS_S[-1])
    line = ""
    for moment in _round_times(start, end, float(tick), tz):
        cell = math.ceil((moment - start) / per_cell - 1e-9)
        text = _label(moment, tick, tz)
        if cell >= len(line) + (LABEL_GAP if line else 0) and cell + len(text) <= cells:
            line = line.ljust(cell) + text
    return line.ljust(cells)


def marks_between(marks: Sequence[Mark], start: float, end: float) -> list[Mark]:
    """The marks within a window, the oldest first."""
    return [mark for mark in marks if start <= mark.at <= end]


def mark_cells(
    marks: Sequence[Mark], start: float, end: float, cells: int
) -> dict[int, list[Mark]]:
    """Cell of the chart → the marks that fall into it."""
    found: dict[int, list[Mark]] = {}
    if cells <= 0 or end <= start:
        return found
    for mark in marks_between(marks, start, end):
        cell = min(int((mark.at - start) / (end - start) * cells), cells - 1)
        found.setdefault(cell, []).append(mark)
    return found


def older_mark(marks: Sequence[Mark], chosen: int | None) -> int | None:
    """Id of the mark to select after `chosen`: the newest first, then older ones, then none."""
    ids = [mark.id for mark in marks]
    if not ids:
        return None
    if chosen not in ids:
        return ids[-1]
    place = ids.index(chosen)
    return ids[place - 1] if place else None


def _width(tick: float) -> int:
    """Cells of the widest label at that distance."""
    return 8 if tick < MINUTE else 9 if tick < DAY else 6


def _round_times(start: float, end: float, tick: float, tz: tzinfo | None) -> list[float]:
    """Unix times of whole multiples of `tick` in local time, so that days begin at midnight."""
    local = datetime.fromtimestamp(start, tz)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if tick >= DAY:
        step = timedelta(days=round(tick / DAY))
        found, day = [], midnight
        while day.timestamp() <= end:
            found.append(day.timestamp())
            day += step
        return [t for t in found if t >= start]
    first = midnight.timestamp()
    begin = math.ceil((start - first) / tick)
    count = int((end - first) / tick) - begin + 1
    return [first + (begin + i) * tick for i in range(max(count, 0))]


def _label(moment: float, tick: float, tz: tzinfo | None) -> str:
    local = datetime.fromtimestamp(moment, tz)
    if tick >= DAY:
        return local.strftime("%b %d")
    if tick < MINUTE:
        return local.strftime("%H:%M:%S")
    return local.strftime("%a %H:%M" if (local.hour, local.minute) == (0, 0) else "%H:%M")
