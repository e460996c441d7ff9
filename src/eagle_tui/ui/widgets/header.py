"""The top line: which run, how long, how much longer, is the supervisor there, what time is it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.containers import Horizontal

from eagle_tui import fmt
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.frame import Frame

_CLOCK_WIDTH = 10
_GAP = 3


class RunLine(Canvas):
    """Run, target, elapsed, time left, supervisor; the rightmost give way first."""

    frame: Frame | None = None

    def draw(self, width: int, height: int) -> Iterable[Line]:
        pen = Pen().add(" ")
        if self.frame is None:
            yield pen.add("eagle-tui", self.palette.strong).segments
            return
        status, look = self.frame.status, self.palette
        run = status.run
        pen.add(run.name, look.strong)
        state = "not answering" if self.frame.stale else status.supervisor.state
        style = look.ok if state == "running" else look.error if self.frame.stale else look.warn
        long = fmt.eta_finish(run.eta_s, self.frame.now - self.frame.age_s)
        long += fmt.beside(run.eta_without) if run.eta_s else ""
        parts = [
            ("elapsed ", fmt.duration(run.elapsed_s), look.text),
            ("left ", long, look.text),
            ("supervisor ", state, style),
        ]
        if self.eagle.banner:
            parts = [("", self.eagle.banner, look.warn + look.strong), *parts[:2]]
        elif self.eagle.readonly:
            parts.append(("", "read-only", look.warn))
        room = width - pen.width
        if _wide(parts) + len(run.target) + 2 <= room:
            pen.add("  " + run.target, look.muted)
        if _wide(parts) > room and state == "running" and not self.eagle.banner:
            del parts[2]
        if _wide(parts) > room:
            more = fmt.beside(run.eta_without, 0) if run.eta_s else ""
            short = ("left ", fmt.eta(run.eta_s) + more, look.text)
            parts = [short if part[0] == "left " else part for part in parts]
        for label, value, style in parts:
            if pen.width + len(label) + len(value) + _GAP <= width:
                pen.add(" " * _GAP + label, look.muted).add(value, style)
        yield pen.segments


def _wide(parts: list[tuple[str, str, Style]]) -> int:
    return sum(_GAP + len(label) + len(value) for label, value, _ in parts)


class ClockLine(Canvas):
    """The wall clock: alone in its widget, because it changes each second."""

    DEFAULT_CSS = f"ClockLine {{ width: {_CLOCK_WIDTH}; }}"

    def draw(self, width: int, height: int) -> Iterable[Line]:
        text = fmt.clock(self.eagle.clock.wall())
        yield Pen().cell(text + " ", width, self.palette.muted, right=True).segments


class Header(Horizontal):
    """The top line."""

    DEFAULT_CSS = "Header { height: 1; background: $panel; }"

    def __init__(self) -> None:
        self._run, self._clock = RunLine(), ClockLine()
        super().__init__(self._run, self._clock)

    def show(self, frame: Frame) -> None:
        self._run.frame = frame
        self._run.redraw()
        self._clock.redraw()

    def tick(self) -> None:
        """Let the clock go on; called when no snapshot came."""
        self._clock.redraw()
