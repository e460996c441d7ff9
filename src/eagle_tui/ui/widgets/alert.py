"""One line that says what is wrong, or what limits the run, or that all is well."""

from __future__ import annotations

from collections.abc import Iterable

from eagle_tui import fmt
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.verdict import Verdict, verdict


class AlertLine(Canvas):
    """The worst alert with its remedy; a supervisor that is gone comes before everything."""

    frame: Frame | None = None
    waiting = "Asking the supervisor …"

    def show(self, frame: Frame) -> None:
        self.frame = frame
        self.redraw()

    def complain(self, sentence: str) -> None:
        """No snapshot ever came: say why."""
        self.waiting = sentence
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self.frame is None:
            style = self.palette.muted if self.waiting.endswith("…") else self.palette.error
            yield Pen().add(" ").cell(self.waiting, width - 1, style).segments
        elif self.frame.problem:
            age = fmt.age(self.frame.age_s)
            text = f"Figures are {age} old. {self.frame.problem}"
            glyph = self.glyphs.state("error")
            yield Pen().cell(f" {glyph} {text}", width, self.palette.error).segments
        else:
            yield self._verdict(verdict(self.frame.status), width)

    def _verdict(self, what: Verdict, width: int) -> Line:
        state = what.severity or "ok"
        style = self.palette.state(state)
        pen = Pen().add(f" {self.glyphs.state(state)} ", style)
        more = f"  +{what.more} more (e)" if what.more else ""
        room = width - pen.width - len(more)
        quiet = what.severity in (None, "info")
        pen.upto(what.sentence, room, self.palette.text if quiet else style)
        arrow = f"  {self.glyphs.arrow} "
        room = width - pen.width - len(more) - len(arrow)
        if what.remedy and room > 12:
            pen.add(arrow, self.palette.muted).upto(what.remedy, room, self.palette.accent)
        return pen.add(more, self.palette.muted).segments
