"""The phase strip: where the run stands, in one line or, where there is room, in two."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style

from eagle_tui import fmt
from eagle_tui.protocol import PhaseStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.frame import Frame

_QUIET = ("pending", "done")
"""States whose glyph says enough where room is short."""
_BAR_WIDTH = 8
_COLUMN_EXTRA = 6
"""Cells of a column beside name and state: margin, glyph, gaps, arrow."""
_ACTIVE_WIDTH = 42
"""Room for bar, per cent, counts and elapsed time."""


class PhaseStrip(Canvas):
    """prepare ▸ generate ▸ merge ▸ extract ▸ train ▸ bench."""

    frame: Frame | None = None

    def show(self, frame: Frame) -> None:
        self.frame = frame
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        phases = self.frame.status.phases if self.frame else ()
        if not phases:
            return
        if height >= 2:
            yield from self._columns(phases, width)
        else:
            yield self._one_line(phases, width)

    def _one_line(self, phases: tuple[PhaseStatus, ...], width: int) -> Line:
        """The fullest of three forms that fits."""
        pen = Pen()
        for words, separator in ((True, True), (False, True), (False, False)):
            pen = Pen()
            for index, phase in enumerate(phases):
                gap = f" {self.glyphs.separator} " if separator else " "
                pen.add(gap if index else " ", self.palette.track)
                pen.add(f"{self.glyphs.state(phase.state)} ", self.palette.state(phase.state))
                pen.add(phase.name, self._name_style(phase))
                if phase.state not in _QUIET and words:
                    pen.add(f" {phase.state}", self.palette.state(phase.state))
                share = fmt.share(phase.done, phase.total)
                if phase.state not in _QUIET and share is not None:
                    pen.add(f" {fmt.percent(share)}", self.palette.text)
            if pen.width <= width:
                break
        return pen.segments

    def _columns(self, phases: tuple[PhaseStatus, ...], width: int) -> Iterable[Line]:
        """Name and state above, progress or the reason below, the phase at work the widest."""
        top, below = Pen(), Pen()
        for index, (phase, column) in enumerate(zip(phases, _widths(phases, width), strict=True)):
            cell = Pen()
            cell.add(f" {self.glyphs.state(phase.state)} ", self.palette.state(phase.state))
            cell.add(f"{phase.name} ", self._name_style(phase))
            cell.add(phase.state, self.palette.state(phase.state))
            arrow = self.glyphs.separator if index + 1 < len(phases) else ""
            top.segments += cell.segments
            top.add(" " * max(column - 2 - cell.width, 0)).cell(arrow, 2, self.palette.track)
            detail = Pen().add("   ")
            self._detail(detail, phase, column - 3)
            below.segments += detail.segments
            below.add(" " * max(column - detail.width, 0))
        yield top.segments
        yield below.segments

    def _detail(self, pen: Pen, phase: PhaseStatus, width: int) -> None:
        share = fmt.share(phase.done, phase.total)
        if phase.reason and phase.state in ("blocked", "failed", "stale", "stalled", "pending"):
            pen.cell(phase.reason, width - 1, self._reason_style(phase))
        elif phase.state == "done" or share is None:
            text = fmt.exact(phase.done) if phase.done is not None else ""
            unit = f" {phase.unit}" if text and phase.unit else ""
            took = fmt.duration(phase.elapsed_s) if phase.elapsed_s else ""
            pen.cell(f"{text}{unit}  {took}".strip(), width - 1, self.palette.muted)
        else:
            self._progress(pen, phase, share, width - 1)

    def _progress(self, pen: Pen, phase: PhaseStatus, share: float, width: int) -> None:
        filled, track = bar(share, _BAR_WIDTH, self.glyphs)
        pen.add(filled, self.palette.state(phase.state)).add(track, self.palette.track)
        pen.add(f" {fmt.percent(share)}", self.palette.strong)
        room = width - _BAR_WIDTH - 5
        took = fmt.duration(phase.elapsed_s)
        full = f" {fmt.count(phase.done)}/{fmt.count(phase.total)}"
        text = f"{full}  {took}" if len(full) + len(took) + 2 <= room else full
        if len(text) <= room:
            pen.add(text, self.palette.muted)

    def _name_style(self, phase: PhaseStatus) -> Style:
        return self.palette.muted if phase.state == "pending" else self.palette.strong

    def _reason_style(self, phase: PhaseStatus) -> Style:
        quiet = phase.state in ("pending", "blocked")
        return self.palette.muted if quiet else self.palette.state(phase.state)


def _widths(phases: tuple[PhaseStatus, ...], width: int) -> list[int]:
    """Columns for `width` cells: each what its name and state need, the phase at work more."""
    widths = [len(phase.name) + len(phase.state) + _COLUMN_EXTRA for phase in phases]
    spare = max(width - sum(widths), 0)
    for index, phase in enumerate(phases):
        if phase.state not in (*_QUIET, "blocked") and spare:
            wider = min(spare, max(_ACTIVE_WIDTH - widths[index], 0))
            widths[index] += wider
            spare -= wider
    return [cells + spare // len(widths) for cells in widths]
