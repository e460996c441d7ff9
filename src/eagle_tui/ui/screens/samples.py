"""The samples screen: a list by order, dataset and text, and the one that is read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from eagle_tui.actions import Action
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import Sample
from eagle_tui.records import SampleHead, TokenView
from eagle_tui.ui.copying import for_clipboard, write_copy
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.sample_book import SampleBook
from eagle_tui.ui.sample_text import Folds, plain_text, sample_lines
from eagle_tui.ui.screens.base import RunScreen, keys_of
from eagle_tui.ui.token_lines import summary, token_lines
from eagle_tui.ui.widgets.ask import AskLine
from eagle_tui.ui.widgets.sample_list import SampleList
from eagle_tui.ui.widgets.sample_reader import SampleReader
from eagle_tui.ui.work import begin

WIDE = 120
"""Columns from which list and reader stand side by side."""
DEAD = ".dead"


class SamplesScreen(RunScreen):
    """What the target wrote."""

    NAME = "samples"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 8.0
    """What is newest changes no sooner: nobody reads faster, each time the whole page is new."""
    AUTO_FOCUS = ""

    def __init__(self) -> None:
        super().__init__()
        self.book = SampleBook()
        self.list, self.reader, self.asking = SampleList(self.book), SampleReader(), AskLine()
        self._names: list[str] = []
        self._folds = Folds()
        self._tokens: TokenView | None = None
        self._show_tokens = False
        self._opened: tuple[str, str] | None = None

    def body(self) -> ComposeResult:
        yield Container(self.list, self.reader, id="panes")
        yield self.asking

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")
        self.call_after_refresh(self._lay_out)

    # What arrives

    def show(self, frame: Frame) -> None:
        self._names = [row.name for row in frame.status.datasets]

    async def load(self) -> None:
        """The first look, or what came since."""
        book = self.book
        if not book.asked:
            self._look_on()
            return
        if self.eagle.mode:
            await self._load_past()
        elif not book.rewritten:
            page = await self.eagle.client.find_samples(book.news())
            book.take_news(page, self._reading)
            self._selected()
        self._look_on()

    async def _load_past(self) -> None:
        """In a replay no file grows, but more of it is seen, or less when one went back."""
        book, frame = self.book, self.eagle.frame
        if frame is not None and book.reaches_beyond(frame.status.at + 1):
            book.begin()
            self._selected()
            return
        query = book.first()
        page = await self.eagle.client.find_samples(query)
        if query == book.first():
            book.take_news(page, self._reading)
            self._selected()

    @property
    def _reading(self) -> bool:
        """Whether somebody reads, so that nothing may move."""
        return self.book.selected > 0 or self.reader.top > 0 or self._show_tokens or self._full

    @property
    def _full(self) -> bool:
        return self.has_class("-full")

    def _begin(self) -> None:
        """Another order, dataset or text: what was there goes away at once."""
        self.list.problem = ""
        self._selected()
        self._look_on()

    def _look_on(self) -> None:
        begin(self, self._look, group="look", exclusive=True)

    async def _look(self) -> None:
        """Look on as long as the list wants more."""
        book = self.book
        try:
            while self.in_sight and (book.wants_more() or not book.asked):
                query = book.more()
                page = await self.eagle.client.find_samples(query)
                if query != book.more():
                    return  # something else is looked for meanwhile
                book.take_more(page)
                self.list.problem = ""
                self._selected()
        except ClientError as error:
            self.list.problem = str(error)
        self.list.redraw()

    def _selected(self) -> None:
        """Show the list, and open what is selected when that is another one."""
        self.list.redraw()
        head = self.book.current
        key = (head.dataset, head.id) if head else None
        if head is not None:
            self.reader.flagged = head.flagged
        if key != self._opened:
            self._opened = key
            self._tokens = None
            self.reader.show(None)
            if head is not None:
                begin(self, self._open, head, group="open", exclusive=True)

    async def _open(self, head: SampleHead) -> None:
        try:
            sample = await self.eagle.client.sample(head.dataset, head.id, head.offset)
        except ClientError as error:
            self.reader.show(None, str(error))
            return
        self.reader.show(sample)
        await self._fill()

    def _lay_out(self) -> None:
        """Make the lines anew, as after another width or fold."""
        if self.reader.sample is not None:
            begin(self, self._fill, group="fill", exclusive=True)

    async def _fill(self) -> None:
        """Make the lines of what is open, in a thread: texts may be huge."""
        sample, width = self.reader.sample, self.reader.text_width
        if sample is None:
            return
        if self._show_tokens:
            await self._fill_tokens(sample, width)
            return
        lines = await asyncio.to_thread(sample_lines, sample, width, self._folds, self.eagle.glyphs)
        if sample is self.reader.sample and not self._show_tokens:
            self.reader.show_lines(lines)

    async def _fill_tokens(self, sample: Sample, width: int) -> None:
        head = self.book.current
        if self._tokens is None:
            if head is None:
                return
            self.reader.show_lines((), "Reading the tokens …")
            try:
                view = await self.eagle.client.sample_tokens(head.dataset, head.id, head.offset)
            except ClientError as error:
                self.reader.show_lines((), str(error))
                return
            if sample is not self.reader.sample:
                return
            self._tokens = view
        view = self._tokens
        mark = "*" if self.eagle.glyphs.mode == "ascii" else "▪"
        lines = await asyncio.to_thread(token_lines, view, width + 3, mark)
        if sample is self.reader.sample and self._show_tokens:
            self.reader.show_lines(lines, f"{mark} predicted  {summary(view)}")

    # What the operator does

    def selected_dataset(self) -> str | None:
        head = self.book.current
        return head.dataset.removesuffix(DEAD) if head else self.book.dataset

    def move(self, by: int) -> None:
        if self._full:
            self.reader.scroll_rows(by)
        elif self.book.move(by):
            self._selected()
            self._look_on()

    def page(self, by: int) -> None:
        self.reader.scroll_pages(by)

    def jump(self, to_end: bool) -> None:
        self.reader.jump(to_end)

    @on(SampleList.Picked)
    def _picked(self, message: SampleList.Picked) -> None:
        self.move(message.index - self.book.selected)

    def do_sample_order(self) -> None:
        self.book.next_order()
        self._begin()

    def do_sample_dataset(self) -> None:
        self.book.next_dataset(self._names)
        self._begin()

    def do_fresh(self) -> None:
        if self.book.rewritten:
            self.book.begin()
            self._begin()
            return
        self.book.catch_up()
        self.reader.jump(False)
        self._selected()

    def do_read(self) -> None:
        self.toggle_class("-full")
        self.call_after_refresh(self._lay_out)

    def do_prompt(self) -> None:
        self._fold(replace(self._folds, prompt=not self._folds.prompt))

    def do_fold(self) -> None:
        self._fold(replace(self._folds, reasoning=not self._folds.reasoning))

    def do_fold_answer(self) -> None:
        self._fold(replace(self._folds, answer=not self._folds.answer))

    def _fold(self, folds: Folds) -> None:
        if self.reader.sample is None:
            self._no_sample()
        self._folds = folds
        self._lay_out()

    def do_tokens(self) -> None:
        if self.reader.sample is None:
            self._no_sample()
            return
        self._show_tokens = not self._show_tokens
        self.reader.show(self.reader.sample)
        self._lay_out()

    def do_search(self) -> None:
        self.asking.ask("search", self.book.text, "in prompts, reasoning and answers")

    @on(AskLine.Answered)
    def _answered(self, message: AskLine.Answered) -> None:
        if message.text != self.book.text:
            self.book.text = message.text
            self.book.begin()
            self._begin()

    def do_copy(self) -> None:
        if self.reader.sample is None:
            self._no_sample()
            return
        begin(self, self._copy, self.reader.sample, group="copy")

    def _no_sample(self) -> None:
        self.notify("There is no sample here.", timeout=2, markup=False)

    async def _copy(self, sample: Sample) -> None:
        text = plain_text(sample)
        try:
            path = await asyncio.to_thread(write_copy, f"{sample.dataset}-{sample.id[:16]}", text)
        except OSError as error:
            self.notify(f"The copy cannot be written: {error}", severity="error", markup=False)
            return
        short = for_clipboard(text)
        if short is None:
            self.notify(f"Too long for a clipboard; written to {path}", markup=False)
            return
        self.app.copy_to_clipboard(short)
        self.notify(
            f"Sent to the terminal's clipboard, and written to {path}", markup=False, timeout=8
        )

    def order(self, action: Action) -> None:
        head = self.book.current
        if action.verb != "flag":
            super().order(action)
            return
        if head is None:
            self._no_sample()
            return
        begin(self, self._flag, head, group="command")

    async def _flag(self, head: SampleHead) -> None:
        """Flag what is read, or take the flag away."""
        args = {"dataset": head.dataset.removesuffix(DEAD), "id": head.id}
        try:
            answer = await self.eagle.send(
                "flag", {**args, **({"undo": True} if head.flagged else {})}
            )
        except ClientError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if answer.state == "refused":
            self.notify(f"flag was refused: {answer.reason}", severity="error", markup=False)
            return
        self.book.mark(head.dataset, head.id, not head.flagged)
        self._selected()
        self.reader.redraw()

    def do_back(self) -> None:
        if self._show_tokens:
            self.do_tokens()
        elif self._full:
            self.do_read()
        elif self.book.text:
            self.book.text = ""
            self.book.begin()
            self._begin()
        else:
            super().do_back()
