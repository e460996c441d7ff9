"""The events screen's parts: the list of entries, the alerts of now, all about the selected one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from eagle_tui import fmt
from eagle_tui.protocol import Alert, CommandStatus
from eagle_tui.records import JournalEntry
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.journal import command_text, entry_of, one_line, steps
from eagle_tui.ui.journal_book import JournalBook
from eagle_tui.ui.wrap import wrap


class JournalList(Canvas):
    """One line an entry, the newest at the bottom; the cursor is kept in sight."""

    class Picked(Message):
        """An entry was clicked."""

        def __init__(self, index: int) -> None:
            self.index = index
            super().__init__()

    def __init__(self, book: JournalBook) -> None:
        super().__init__(id="journal")
        self._book = book
        self.commands: Mapping[str, CommandStatus] = {}
        """Commands by id as they are now."""
        self._top = 0
        self.problem = ""

    @property
    def rows(self) -> int:
        return max(self.size.height - 1, 1)

    def draw(self, width: int, height: int) -> Iterable[Line]:
        book, look = self._book, self.palette
        yield self._head(width)
        if not book.entries:
            what = self.problem or ("Nothing of that kind has happened." if book.asked else "…")
            yield Pen().add(f"  {what}", look.error if self.problem else look.muted).segments
            return
        rows = height - 1
        self._top = max(min(self._top, book.selected, len(book.entries) - rows), 0)
        self._top = max(self._top, book.selected - rows + 1)
        now = self.eagle.clock.wall()
        for index in range(self._top, min(self._top + rows, len(book.entries))):
            entry = entry_of(book.entries[index], self.commands)
            line = one_line(entry, now, width, look, self.glyphs)
            if index == book.selected:
                padded = Strip(line).adjust_cell_length(width)
                line = list(Segment.apply_style(padded, post_style=look.cursor))
            yield line

    def _head(self, width: int) -> Line:
        book, look = self._book, self.palette
        pen = Pen().add(" events and commands", look.strong)
        if book.severity is not None:
            pen.add(f"  {book.severity} and above", look.state(book.severity))
        if book.asked_for:
            pen.add("  /", look.key).add(book.asked_for, look.strong)
        right = Pen()
        newer = book.newer_than_selected
        if newer or not book.at_newest:
            right.add(f"{newer}{'' if book.at_newest else '+'} newer (n) ", look.accent)
        return pen.right(right, width).segments

    def on_click(self, event: events.Click) -> None:
        index = self._top + event.y - 1
        if event.y >= 1 and index < len(self._book.entries):
            self.post_message(self.Picked(index))


class AlertList(Canvas):
    """Every alert, with its remedy where it has one; no rows when there is no alert."""

    def __init__(self) -> None:
        super().__init__(id="alerts")
        self._alerts: Sequence[Alert] = ()

    def show(self, alerts: Sequence[Alert], most: int) -> None:
        """Draw these in at most `most` rows."""
        self._alerts = alerts
        self.display = bool(alerts)
        rows = sum(2 if alert.remedy else 1 for alert in alerts)
        self.styles.height = 1 + min(1 + rows, max(most, 3))
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        look, now = self.palette, self.eagle.clock.wall()
        yield Pen().add(f" alerts now: {len(self._alerts)}", look.strong).segments
        for alert in self._alerts:
            style = look.state(alert.severity)
            pen = Pen().add(f" {fmt.moment(alert.since, now):<9} ", look.muted)
            pen.add(f"{self.glyphs.state(alert.severity)} ", style)
            indent = pen.width
            yield pen.cell(alert.sentence, width - indent - 1, style).segments
            if not alert.remedy:
                continue
            pen = Pen().add(" " * indent).add(f"{self.glyphs.arrow} ", look.muted)
            yield pen.cell(alert.remedy, width - pen.width - 1, look.accent).segments


class EntryDetail(Canvas):
    """All about one entry."""

    def __init__(self) -> None:
        super().__init__(id="detail")
        self._entry: JournalEntry | None = None
        self._command: CommandStatus | None = None

    def show(self, entry: JournalEntry | None, command: CommandStatus | None) -> None:
        """Draw this; `command` is the entry's command as it is now."""
        self._entry, self._command = entry, command
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self._command is not None:
            return self._of_command(self._command, width, height)
        if self._entry is not None and self._entry.event is not None:
            return self._of_event(width, height)
        return ()

    def _of_event(self, width: int, height: int) -> Iterable[Line]:
        assert self._entry is not None and self._entry.event is not None
        event, look = self._entry.event, self.palette
        sign = f" {self.glyphs.state(event.severity)} {event.severity}  "
        pen = Pen().add(sign, look.state(event.severity)).add(event.source, look.strong)
        pen.add(f"  {fmt.day(event.at)} {fmt.clock(event.at)}", look.muted)
        yield pen.segments
        yield from self._words(event.text, width, height - 1)

    def _of_command(self, command: CommandStatus, width: int, height: int) -> Iterable[Line]:
        look, now = self.palette, self.eagle.clock.wall()
        state = command.state
        pen = Pen().add(f" {self.glyphs.state(state)} ", look.state(state))
        pen.add(command_text(command.verb, command.args), look.strong)
        pen.add(f"  by {command.origin or 'operator'}  {command.id[:12]}", look.muted)
        yield pen.segments
        path = steps(command, now).replace("→", self.glyphs.arrow)
        yield Pen().add(f" {path}", look.state(state)).segments
        left = height - 3
        for text in (command.sentence, command.reason):
            if text and left > 0:
                lines = list(self._words(text, width, left))
                left -= len(lines)
                yield from lines
        if command.undo:
            yield Pen().add(" u takes it back: ", look.key).add(command.undo, look.text).segments
        else:
            yield Pen().add(" It cannot be taken back.", look.muted).segments

    def _words(self, text: str, width: int, rows: int) -> Iterable[Line]:
        lines = wrap(text, max(width - 2, 20))
        for index, part in enumerate(lines[:rows]):
            cut = f" {self.glyphs.ellipsis}" if index == rows - 1 and len(lines) > rows else ""
            yield Pen().add(f" {part}{cut}", self.palette.text).segments
