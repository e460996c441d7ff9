"""A full screen of lines to read: a title, a body that scrolls, and the keys to leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

    DEFAULT_CSS = "Page { height: 1fr; }"

    def __init__(
        self, lines: Callable[[int], Sequence[Line]], *, follow: bool = False, id: str = "page"
    ) -> None:
        """`lines(width)` gives all lines. With `follow` the last one is kept in sight while nobody
        scrolled away from it."""
        super().__init__(id=id)
        self._lines = lines
        self._follows = follow
        self._at_end = follow
        self.top = 0

    def draw(self, width: int, height: int) -> Iterable[Line]:
        lines = self._lines(width)
        last = max(len(lines) - height, 0)
        self.top = last if self._at_end else min(self.top, last)
        return lines[self.top : self.top + height]

    def scroll_rows(self, by: int) -> None:
        """Down by so many rows, or up; stops at the ends."""
        last = max(len(self._lines(self.size.width)) - self.size.height, 0)
        self.top = min(max(self.top + by, 0), last)
        self._at_end = self._follows and self.top == last
        self.redraw()

    def scroll_pages(self, by: int) -> None:
        """By as many rows as are in sight, but one."""
        self.scroll_rows(by * max(self.size.height - 1, 1))

    def jump(self, to_end: bool) -> None:
        """To the first or the last line."""
        self.scroll_rows(1_000_000_000 if to_end else -1_000_000_000)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.scroll_rows(2)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.scroll_rows(-2)


class PageScreen(Screen[None]):
    """Base of the screens that are read and left. Subclasses give `TITLE_TEXT` and `lines`."""

    TITLE_TEXT = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,backspace", "leave_page", "Back", show=False),
        Binding("up,k", "scroll_rows(-1)", show=False),
        Binding("down,j", "scroll_rows(1)", show=False),
        Binding("pageup", "scroll_pages(-1)", show=False),
        Binding("pagedown,space", "scroll_pages(1)", show=False),
        Binding("home", "jump(False)", show=False),
        Binding("end", "jump(True)", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.text = Page(self.lines)

    def compose(self) -> ComposeResult:
        yield TitleLine(self.TITLE_TEXT, "↑ ↓ PgUp PgDn scroll   q back")
        yield self.text

    def lines(self, width: int) -> Sequence[Line]:
        """All lines of the page for this width."""
        raise NotImplementedError

    def action_leave_page(self) -> None:
        self.dismiss(None)

    def action_scroll_rows(self, by: int) -> None:
        self.text.scroll_rows(by)

    def action_scroll_pages(self, by: int) -> None:
        self.text.scroll_pages(by)

    def action_jump(self, to_end: bool) -> None:
        self.text.jump(to_end)
