"""A full screen of lines to read: a title, a body that scrolls, and the keys to leave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from eagle_tui.ui.canvas import Canvas, Line, Pen


class TitleLine(Canvas):
    """One line on the panel's ground."""

    def __init__(self, title: str, keys: str) -> None:
        super().__init__(id="title")
        self._title, self._keys = title, keys

    def draw(self, width: int, height: int) -> Iterable[Line]:
        pen = Pen().add(f" {self._title}", self.palette.strong)
        yield pen.right(Pen().add(f"{self._keys} ", self.palette.muted), width).segments


class Page(Canvas):
    """Lines made by its screen, scrolled by rows; only the rows in sight are drawn."""

    def __init__(self) -> None:
        super().__init__(id="page")
        self.top = 0
        self.follow = False
        """Keep the last line in sight while nobody scrolled away from it."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        lines = self._lines(width)
        last = max(len(lines) - height, 0)
        self.top = last if self.follow else min(self.top, last)
        return lines[self.top : self.top + height]

    def scroll_rows(self, by: int) -> None:
        last = max(len(self._lines(self.size.width)) - self.size.height, 0)
        self.top = min(max(self.top + by, 0), last)
        if self.follow or (isinstance(self.screen, PageScreen) and self.screen.FOLLOW):
            self.follow = self.top == last
        self.redraw()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.scroll_rows(2)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.scroll_rows(-2)

    def _lines(self, width: int) -> Sequence[Line]:
        screen = self.screen
        assert isinstance(screen, PageScreen)
        return screen.lines(width)


class PageScreen(Screen[None]):
    """Base of the screens that are read. Subclasses give `TITLE_TEXT` and `lines`."""

    TITLE_TEXT = ""
    FOLLOW = False
    """Whether the newest line is at the bottom and kept in sight."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace", "leave_page", "Back", show=False),
        Binding("up,k", "scroll_page(-1)", show=False),
        Binding("down,j", "scroll_page(1)", show=False),
        Binding("pageup", "scroll_page(-15)", show=False),
        Binding("pagedown,space", "scroll_page(15)", show=False),
        Binding("home", "scroll_page(-1000000)", show=False),
        Binding("end", "scroll_page(1000000)", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.page.follow = self.FOLLOW

    def compose(self) -> ComposeResult:
        yield TitleLine(self.TITLE_TEXT, "↑ ↓ PgUp PgDn scroll   q back")
        yield self.page

    def lines(self, width: int) -> Sequence[Line]:
        """All lines of the page for this width."""
        raise NotImplementedError

    def action_leave_page(self) -> None:
        self.dismiss(None)

    def action_scroll_page(self, by: int) -> None:
        self.page.scroll_rows(by)
