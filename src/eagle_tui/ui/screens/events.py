"""The events screen: what happened and what was ordered, back to the run's first second."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from eagle_tui.actions import Action
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import CommandStatus
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.journal_book import JournalBook
from eagle_tui.ui.screens.base import RunScreen, keys_of
from eagle_tui.ui.screens.undo import UndoDialog
from eagle_tui.ui.widgets.ask import AskLine
from eagle_tui.ui.widgets.journal import AlertList, EntryDetail, JournalList
from eagle_tui.ui.work import begin

TALL = 36


class EventsScreen(RunScreen):
    """What happened and what was ordered."""

    NAME = "events"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 2.0
    AUTO_FOCUS = ""

    def __init__(self) -> None:
        super().__init__()
        self.book = JournalBook()
        self.list = JournalList(self.book)
        self.alerts, self.detail, self.asking = AlertList(), EntryDetail(), AskLine()

    def body(self) -> ComposeResult:
        yield self.list
        yield self.alerts
        yield self.detail
        yield self.asking

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height >= TALL, "-tall")

    # What arrives

    def show(self, frame: Frame) -> None:
        status, entries = frame.status, self.book.entries
        self.list.commands = {command.id: command for command in status.commands}
        self.alerts.show(status.alerts, self.size.height // 5)
        if entries and entries[-1].at > status.at + 60:
            # A replay went back: what is after its time has not happened.
            self._begin()
        self._show()

    async def load(self) -> None:
        """The newest page, or what came since."""
        book, client = self.book, self.eagle.client
        try:
            if not book.asked:
                book.take_newest(await client.journal(book.newest()))
            elif book.at_newest and (query := book.newer()) is not None:
                book.take_newer(await client.journal(query))
        except ClientError as error:
            self.list.problem = str(error)
        else:
            self.list.problem = ""
        self._show()

    def _begin(self) -> None:
        self.book.begin()
        self._show()
        self.load_soon()

    def _show(self) -> None:
        self.list.redraw()
        entry = self.book.current
        self.detail.show(entry, self._command())

    def _command(self) -> CommandStatus | None:
        """The selected command as it is now; None when an event is selected, or nothing."""
        entry = self.book.current
        if entry is None or entry.command is None:
            return None
        return self.list.commands.get(entry.command.id, entry.command)

    # What the operator does

    def move(self, by: int) -> None:
        self.book.move(by)
        self._show()
        if self.book.older() or not self.book.at_newest:
            begin(self, self._fill, group="pages", exclusive=True)

    async def _fill(self) -> None:
        """Fetch the pages that are near."""
        book, client = self.book, self.eagle.client
        try:
            while self.in_sight:
                if (query := book.older()) is not None:
                    page = await client.journal(query)
                    if query == book.older():
                        book.take_older(page)
                elif not book.at_newest and (query := book.newer()) is not None:
                    page = await client.journal(query)
                    if query == book.newer():
                        book.take_newer(page)
                else:
                    break
                self._show()
        except ClientError as error:
            self.list.problem = str(error)
            self.list.redraw()

    def page(self, by: int) -> None:
        self.move(by * max(self.list.rows - 1, 1))

    def jump(self, to_end: bool) -> None:
        if to_end:
            self.do_fresh()
        else:
            self.move(-len(self.book.entries))

    @on(JournalList.Picked)
    def _picked(self, message: JournalList.Picked) -> None:
        self.move(message.index - self.book.selected)

    def do_fresh(self) -> None:
        if self.book.at_newest:
            self.move(len(self.book.entries))
        else:
            self._begin()

    def do_level(self) -> None:
        self.book.next_severity()
        self._begin()

    def do_search(self) -> None:
        self.asking.ask("search", self.book.asked_for, "words, and @source")

    @on(AskLine.Answered)
    def _answered(self, message: AskLine.Answered) -> None:
        self.book.asked_for = message.text
        self._begin()

    def order(self, action: Action) -> None:
        if action.verb != "undo":
            super().order(action)
            return
        command = self._command()
        if command is None:
            self.notify("Select the command that is to be taken back.", markup=False)
        elif not command.undo:
            self.notify(f"{command.verb} cannot be taken back.", severity="warning", markup=False)
        else:
            status = self.eagle.frame.status if self.eagle.frame else None
            self.app.push_screen(UndoDialog(command, status))

    def do_back(self) -> None:
        if self.book.asked_for:
            self.book.asked_for = ""
            self._begin()
        elif self.book.severity is not None:
            self.book.severity = None
            self._begin()
        else:
            super().do_back()
