"""The events screen: every alert with its remedy, then all events and commands, newest last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from eagle_tui import fmt
from eagle_tui.protocol import Alert
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.journal import entries, full_lines
from eagle_tui.ui.screens.base import RunScreen, keys_of
from eagle_tui.ui.screens.page import Page
from eagle_tui.ui.wrap import wrap


class EventsScreen(RunScreen):
    """What happened and what was ordered."""

    NAME = "events"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)

    def __init__(self) -> None:
        super().__init__()
        self.text = Page(self.lines, follow=True)

    def body(self) -> ComposeResult:
        yield self.text

    def show(self, frame: Frame) -> None:
        self.text.redraw()

    def move(self, by: int) -> None:
        self.text.scroll_rows(by)

    def page(self, by: int) -> None:
        self.text.scroll_pages(by)

    def jump(self, to_end: bool) -> None:
        self.text.jump(to_end)

    def lines(self, width: int) -> Sequence[Line]:
        """All lines, for this width."""
        app = self.eagle
        status = app.frame.status if app.frame else None
        journal = entries(app.events, status.commands if status else ())
        now = app.clock.wall()
        out: list[Line] = [()]
        for entry in journal:
            out += full_lines(entry, now, width, app.palette, app.glyphs)
        if not journal:
            out.append(Pen().add("  Nothing has happened yet.", app.palette.muted).segments)
        alerts = status.alerts if status else ()
        if alerts:
            out += [(), Pen().add("  Alerts now", app.palette.accent).segments]
        for alert in alerts:
            out += self._alert(alert, width)
        return out

    def _alert(self, alert: Alert, width: int) -> list[Line]:
        app = self.eagle
        look, style = app.palette, app.palette.state(alert.severity)
        head = Pen().add(f" {fmt.moment(alert.since, app.clock.wall()):<9} ", look.muted)
        head.add(f"{app.glyphs.state(alert.severity)} ", style)
        indent = head.width
        lines: list[Line] = []
        sentence = wrap(alert.sentence, max(width - indent - 1, 20))
        for index, part in enumerate(sentence):
            pen = head if index == 0 else Pen().add(" " * indent)
            lines.append(pen.add(part, style).segments)
        for part in wrap(f"{app.glyphs.arrow} {alert.remedy}", max(width - indent - 1, 20)):
            lines.append(Pen().add(" " * indent).add(part, look.accent).segments)
        return lines
