"""The list of samples: one line each, and above it what is listed and how far was looked."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from textual import events
from textual.message import Message

from eagle_tui import fmt
from eagle_tui.records import SampleHead
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.sample_book import SampleBook

_NAME_WIDTH = 12
_WIDE = 60


class SampleList(Canvas):
    """Draws a book; the cursor is kept in sight."""

    class Picked(Message):
        """A line was clicked."""

        def __init__(self, index: int) -> None:
            self.index = index
            super().__init__()

    def __init__(self, book: SampleBook) -> None:
        super().__init__(id="list")
        self._book = book
        self._top = 0
        self.problem = ""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        yield self._what(width)
        book, rows = self._book, max(height - 1, 1)
        if not book.heads:
            yield self._nothing(width)
            return
        self._top = min(self._top, book.selected, max(len(book.heads) - rows, 0))
        self._top = max(self._top, book.selected - rows + 1)
        for index in range(self._top, min(self._top + rows, len(book.heads))):
            yield self._row(book.heads[index], width, index == book.selected)

    def _what(self, width: int) -> Line:
        book, look = self._book, self.palette
        pen = Pen().add(f" {book.order}", look.accent)
        pen.add(f"  {book.dataset or 'all datasets'}", look.strong)
        if book.text:
            pen.add("  /", look.key).add(book.text, look.strong)
        if book.heads:
            pen.add(f"  {book.selected + 1}/{len(book.heads)}", look.muted)
            pen.add("" if book.done and not book.full else "+", look.muted)
        if book.waiting:
            pen.add(f"  {len(book.waiting)} newer (n)", look.accent)
        elif book.rewritten:
            pen.add("  rewritten since (n)", look.warn)
        return pen.right(Pen().add(f"{self._searched()} ", look.muted), width).segments

    def _searched(self) -> str:
        book = self._book
        if not book.asked or book.done or not (book.text or book.order != "newest"):
            return f"{book.skipped} unreadable" if book.skipped else ""
        return f"searched {fmt.size(book.looked)} of {fmt.size(book.total)} so far"

    def _nothing(self, width: int) -> Line:
        book, look = self._book, self.palette
        if self.problem:
            return Pen().add("  ").cell(self.problem, width - 3, look.error).segments
        if not book.asked or not book.done:
            return Pen().add("  …", look.muted).segments
        what = "No sample holds that text." if book.text else f"There is none: {book.order}."
        if book.order == "newest" and not book.text:
            what = "No response is stored yet."
        elif book.order == "flagged" and not book.text:
            what = "No sample is flagged; x flags the one that is read."
        return Pen().add("  ").cell(what, width - 3, look.muted).segments

    def _row(self, head: SampleHead, width: int, selected: bool) -> Line:
        look = self.palette
        state = "failed" if head.state != "complete" else "done"
        style = look.ok if head.state == "complete" else look.warn
        pen = Pen().add(f" {self.glyphs.state(state)} ", style)
        if width >= _WIDE:
            pen.add(f"{fmt.moment(head.at, self.eagle.clock.wall()):<9} ", look.muted)
        if self._book.dataset is None:
            pen.cell(head.dataset, _NAME_WIDTH, look.text).add(" ")
        pen.cell(fmt.count(head.completion_tokens), 5, look.muted, right=True)
        flag = "*" if self.glyphs.mode == "ascii" else "◆"
        pen.add(f" {flag if head.flagged else ' '} ", look.accent)
        if head.state != "complete":
            pen.add(f"{head.state} ", look.warn)
        pen.cell(head.title, max(width - pen.width, 0), look.strong if selected else look.text)
        if not selected:
            return pen.segments
        return list(Segment.apply_style(pen.segments, post_style=look.cursor))

    def on_click(self, event: events.Click) -> None:
        index = self._top + event.y - 1
        if event.y >= 1 and index < len(self._book.heads):
            self.post_message(self.Picked(index))
