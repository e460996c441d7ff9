"""The logs screen: what every process of the run has written, from the newest line back."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from eagle_tui import fmt
from eagle_tui.client_api import ClientError
from eagle_tui.place import EXAMPLES, share_of, time_of
from eagle_tui.records import LogFile
from eagle_tui.ui.log_window import LogWindow
from eagle_tui.ui.screens.base import RunScreen, keys_of
from eagle_tui.ui.widgets.ask import AskLine
from eagle_tui.ui.widgets.log_view import LogList, LogView, Scrolled
from eagle_tui.ui.work import begin

WIDE = 120
"""Columns from which the list of logs stands beside the log."""
SIDEWAYS = 20
MOST_LOOKS = 200
"""Looks of one fill: 12 GB of a log in which nothing passes the filter."""


class LogsScreen(RunScreen):
    """One log at a time."""

    NAME = "logs"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 1.0
    AUTO_FOCUS = ""

    def __init__(self) -> None:
        super().__init__()
        self.window = LogWindow()
        self.view, self.list, self.asking = LogView(self.window), LogList(), AskLine()
        self._files: list[LogFile] = []

    def body(self) -> ComposeResult:
        yield Container(self.list, self.view, id="panes")
        yield self.asking

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")
        self.call_after_refresh(self._settle)

    # What arrives

    async def load(self) -> None:
        """The list of logs, and what was written since."""
        self._files = await self.eagle.client.log_files()
        window = self.window
        names = [file.name for file in self._files]
        if self._files and window.name not in names:
            self._open(names[0])
        self._list()
        if window.name and not window.asked and not self._busy:
            self._go(None)  # the file was cut meanwhile
        if window.asked and window.at_end and not self._busy:
            file = next((f for f in self._files if f.name == window.name), None)
            if file is not None and file.size != window.size:
                window.take_newer(await self.eagle.client.log_page(window.appended()))
                self._settle()

    def _list(self) -> None:
        self.list.show(self._files, self.window.name)
        names = [file.name for file in self._files]
        if self.window.name in names and not self.has_class("-wide"):
            self.view.position = f"{names.index(self.window.name) + 1}/{len(names)}"
        else:
            self.view.position = ""
        self.view.redraw()

    @property
    def _busy(self) -> bool:
        """Whether rows are on their way: then no others may be put in."""
        return any(worker.group == "rows" and not worker.is_finished for worker in self.workers)

    def _open(self, name: str) -> None:
        self.window.begin(name)
        self.view.say("")
        self._list()
        frame = self.eagle.frame
        if self.eagle.mode and frame is not None:
            # A replay shows what was: the log stands at the same time.
            begin(self, self._go_to_time, frame.status.at, group="rows", exclusive=True)
        else:
            self._go(None)

    def _go(self, offset: int | None) -> None:
        """Show the rows around a byte; None: the end."""
        begin(self, self._fill_around, offset, group="rows", exclusive=True)

    async def _fill_around(self, offset: int | None) -> None:
        window, client = self.window, self.eagle.client
        name = window.name
        try:
            page = await client.log_page(window.around(offset))
            if window.name != name:
                return
            window.take_around(page, offset)
            if offset is not None:
                window.take_newer(await client.log_page(window.appended()))
                window.top = max(window.top - self.view.rows // 3, 0)
            self._settle()
            await self._fill()
        except ClientError as error:
            self.view.say(str(error), alarm=True)

    async def _fill(self) -> None:
        """Fetch what is near the ends of what is held, until the screen is full with some spare."""
        window, client = self.window, self.eagle.client
        for look in range(MOST_LOOKS):
            before = (window.name, window.level)
            older, newer = window.older(), window.newer(self.view.rows)
            if (older is None and newer is None) or not self.in_sight:
                break
            if older is not None:
                page = await client.log_page(older)
                if before == (window.name, window.level):
                    window.take_older(page)
                    looked = window.size - page.start
            else:
                assert newer is not None
                page = await client.log_page(newer)
                if before == (window.name, window.level):
                    window.take_newer(page)
                    looked = page.end
            if look and window.level:
                self.view.say(f"looked through {fmt.size(looked)} of {fmt.size(window.size)}")
            self._settle()
        if self.view.note.startswith("looked"):
            self.view.say("")

    def _settle(self) -> None:
        """Keep the place within what is held; at the end, go along with it."""
        window, last = self.window, self.view.last_top()
        window.top = last if window.follow else min(window.top, last)
        self.view.redraw()

    def _more(self) -> None:
        """Fetch more where an end of what is held is near."""
        window = self.window
        if not self._busy and (window.older() or window.newer(self.view.rows)):
            begin(self, self._fill_guarded, group="rows", exclusive=True)

    async def _fill_guarded(self) -> None:
        try:
            await self._fill()
        except ClientError as error:
            self.view.say(str(error), alarm=True)

    # What the operator does

    @on(Scrolled)
    def _scrolled(self, message: Scrolled) -> None:
        self.move(message.by)

    def move(self, by: int) -> None:
        self.window.scroll(by, self.view.last_top())
        self.view.redraw()
        self._more()

    def page(self, by: int) -> None:
        self.move(by * max(self.view.rows - 1, 1))

    def jump(self, to_end: bool) -> None:
        if to_end:
            self.do_follow()
        else:
            self.window.follow = False
            self._to(0)

    def _to(self, offset: int) -> None:
        self.window.follow = False
        self._go(offset)

    def do_follow(self) -> None:
        if self.window.follow:
            self.view.say("at its end: what comes is shown")
            return
        self.window.follow = True
        self.window.match = None
        self.view.say("")
        self._go(None)

    def do_next_log(self) -> None:
        self._step(1)

    def do_previous_log(self) -> None:
        self._step(-1)

    def _step(self, by: int) -> None:
        names = [file.name for file in self._files]
        if not names:
            self.notify("There are no logs yet.", timeout=2, markup=False)
            return
        at = names.index(self.window.name) if self.window.name in names else 0
        self._open(names[(at + by) % len(names)])

    @on(LogList.Picked)
    def _picked(self, message: LogList.Picked) -> None:
        self._open(message.name)

    def do_level(self) -> None:
        window = self.window
        offset = None if window.follow else window.offset
        window.next_level()
        self.view.say("")
        self._go(offset)

    def do_wrap(self) -> None:
        self.view.wrapped = not self.view.wrapped
        self.view.shift = 0
        self.view.say("long lines are wrapped" if self.view.wrapped else "long lines are cut")
        self._settle()

    def do_left(self) -> None:
        self._sideways(-SIDEWAYS)

    def do_right(self) -> None:
        self._sideways(SIDEWAYS)

    def _sideways(self, by: int) -> None:
        if self.view.wrapped:
            self.notify("Long lines are wrapped; w cuts them.", timeout=2, markup=False)
            return
        longest = max((len(line.text) for line in self.window.lines), default=0)
        self.view.shift = min(max(self.view.shift + by, 0), longest)
        self.view.redraw()

    def do_search(self) -> None:
        self.asking.ask("search", self.window.text, "then n and N go from place to place")

    def do_go_to(self) -> None:
        self.asking.ask("go to", "", EXAMPLES)

    @on(AskLine.Answered)
    def _answered(self, message: AskLine.Answered) -> None:
        if message.what == "go to":
            self._go_to(message.text)
            return
        self.window.text, self.window.match = message.text, None
        self.view.say("")
        if message.text:
            # From where one is to the end, and if one is at the end, back.
            self._search(backward=self.window.follow)

    def do_next_match(self) -> None:
        self._search(backward=False)

    def do_previous_match(self) -> None:
        self._search(backward=True)

    def _search(self, backward: bool) -> None:
        if not self.window.text:
            self.do_search()
            return
        begin(self, self._find, backward, group="rows", exclusive=True)

    async def _find(self, backward: bool) -> None:
        """Look for the text, look after look, and go to where it is."""
        window = self.window
        query = window.search(backward)
        try:
            while self.in_sight:
                page = await self.eagle.client.log_page(query)
                if page.lines:
                    window.match, window.follow = page.lines[0].offset, False
                    self.view.say("")
                    await self._fill_around(window.match)
                    return
                if page.done:
                    where = "before" if backward else "after"
                    self.view.say(f"not found {where} this place", alarm=True)
                    return
                at = page.start if backward else page.end
                query = query.model_copy(update={"at": at})
                done = 1 - at / page.size if backward else at / page.size
                self.view.say(f"searching … {fmt.percent(done)}")
        except ClientError as error:
            self.view.say(str(error), alarm=True)

    def _go_to(self, text: str) -> None:
        if not text:
            return
        try:
            share = share_of(text)
            at = None if share is not None else time_of(text, self.eagle.clock.wall())
        except ValueError as error:
            self.view.say(str(error), alarm=True)
            return
        if share is not None:
            self._to(int(self.window.size * share))
        elif at is not None:
            begin(self, self._go_to_time, at, group="rows", exclusive=True)

    async def _go_to_time(self, at: float) -> None:
        window = self.window
        try:
            offset = await self.eagle.client.log_at(window.name, at)
        except ClientError as error:
            self.view.say(str(error), alarm=True)
            return
        if offset is None:
            self.view.say("no times stand in this log", alarm=True)
            if not window.asked:
                await self._fill_around(None)
            return
        window.follow = False
        window.match = offset
        self.view.say("")
        await self._fill_around(offset)
        if offset >= window.size:
            window.match = None  # it is later than all that was written
            self.view.redraw()

    def do_back(self) -> None:
        window = self.window
        if window.text or window.match is not None:
            window.text, window.match = "", None
            self.view.say("")
        elif window.level is not None:
            window.level = None
            self._go(None if window.follow else window.offset)
        else:
            super().do_back()
