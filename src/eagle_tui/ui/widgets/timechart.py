"""A chart with a time axis: one metric as an area from zero, the marks of the run drawn on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.style import Style

from eagle_tui import fmt
from eagle_tui.protocol import Mark
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import area, columns_per_cell, nice_top
from eagle_tui.ui.past import Past
from eagle_tui.ui.window import axis, mark_cells

AXIS = 7
"""Cells left of the chart for the numbers of its scale."""
AXIS_FROM = 40
"""Width from which there is room for them."""
_BLANK = "\u2800"


class TimeChart(Canvas):
    """Draws `metric` over the window of `past`. Below it stands the time axis, or the text of the
    mark that is selected; above it, when there are rows enough, nothing: titles are the panel's."""

    DEFAULT_CSS = "TimeChart { height: 1fr; }"

    def __init__(
        self,
        metric: str = "",
        *,
        top: float | None = None,
        label: Callable[[float | None], str] = fmt.count,
        tells: bool = True,
        id: str | None = None,
    ) -> None:
        """`top` fixes the scale's end; else the largest value in sight gives it. `label` writes
        the scale's numbers. With `tells` the selected mark's text replaces the axis."""
        super().__init__(id=id)
        self.metric, self.top, self.label, self.tells = metric, top, label, tells
        self._drawn_for: tuple[object, ...] = ()
        self._lines: list[Line] = []

    @property
    def past(self) -> Past:
        return self.eagle.past

    def draw(self, width: int, height: int) -> Iterable[Line]:
        state = self.past.state(self.eagle.clock.wall())
        key = (self.metric, width, height, self.top, self.palette, self.glyphs, state)
        if key != self._drawn_for:
            self._drawn_for, self._lines = key, list(self._draw(width, height))
        return self._lines

    def _draw(self, width: int, height: int) -> Iterable[Line]:
        left = AXIS if width >= AXIS_FROM else 0
        cells = width - left - 1
        if cells <= 0 or not self.metric:
            return
        rows = height - 1 if height >= 3 else height
        mode = self.glyphs.mode
        columns = cells * columns_per_cell(mode)
        now = self.eagle.clock.wall()
        start, end, _ = self.past.grid(now, columns)
        values = self.past.values(self.metric, now, columns)
        known = [value for value in values if value is not None]
        marks = mark_cells(self.past.marks, start, end, cells)
        if not known:
            yield Pen().add(" " * left + " nothing measured here", self.palette.muted).segments
            yield from ([] for _ in range(rows - 1))
        else:
            top = self.top if self.top is not None else nice_top(max(known))
            for y, text in enumerate(area(values, cells, rows, top, mode)):
                at = self.label(top) if y == 0 else "0" if y == rows - 1 and rows > 1 else ""
                pen = Pen().cell(at, left - 1, self.palette.muted, right=True) if left else Pen()
                pen.add(" ")
                self._row(pen, text, marks)
                yield pen.segments
        if rows < height:
            yield self._below(start, end, left, cells, marks)

    def _row(self, pen: Pen, text: str, marks: dict[int, list[Mark]]) -> None:
        """One row of the area, with the marks' lines where it is empty."""
        done = 0
        for cell in sorted(marks):
            pen.add(text[done:cell], self.palette.chart)
            inside = text[cell : cell + 1]
            here = any(mark.id == self.past.chosen for mark in marks[cell])
            style = self._mark_style(marks[cell], here)
            pen.add(self.glyphs.mark if inside in (_BLANK, " ") else inside, style)
            done = cell + 1
        pen.add(text[done:], self.palette.chart)

    def _mark_style(self, marks: list[Mark], chosen: bool) -> Style:
        bad = any(mark.kind in ("crash", "hang") for mark in marks)
        style = self.palette.error if bad else self.palette.warn
        return style + self.palette.cursor if chosen else style

    def _below(
        self, start: float, end: float, left: int, cells: int, marks: dict[int, list[Mark]]
    ) -> Line:
        pen = Pen().add(" " * left)
        chosen = next(
            (mark for found in marks.values() for mark in found if mark.id == self.past.chosen),
            None,
        )
        if chosen is not None and self.tells:
            now = self.eagle.clock.wall()
            pen.add(f" {fmt.moment(chosen.at, now)} ", self.palette.muted)
            return pen.cell(chosen.text, cells - pen.width + left, self.palette.warn).segments
        text = axis(start, end, cells)
        if self.past.window.follows and cells >= 12:
            text = text[: cells - 4].rsplit(" ", 1)[0].ljust(cells - 3) + "now"
        return pen.add(" " + text, self.palette.muted).segments
