"""The result screen: what the benchmark found, and how the drafter is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from eagle_tui.client_api import ClientError
from eagle_tui.result import ResultRecord
from eagle_tui.ui.canvas import Line
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.result_lines import ResultLines
from eagle_tui.ui.screens.base import RunScreen, keys_of
from eagle_tui.ui.screens.page import Page


class ResultScreen(RunScreen):
    """The benchmark's report; while there is none, what comes before it."""

    NAME = "result"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.text = Page(self.lines, id="result")
        self._record: ResultRecord | None = None

    def body(self) -> ComposeResult:
        yield self.text

    def show(self, frame: Frame) -> None:
        self.text.redraw()

    async def load(self) -> None:
        """What lies in the run's files."""
        try:
            self._record = await self.eagle.client.result()
        except ClientError as error:
            self._record = ResultRecord(problem=str(error))
        self.text.redraw()

    def lines(self, width: int) -> Sequence[Line]:
        """All of it; nothing while it is being read for the first time."""
        app = self.eagle
        if self._record is None:
            return []
        status = app.frame.status if app.frame is not None else None
        return ResultLines(app.palette, app.glyphs, width).all(self._record, status)

    def move(self, by: int) -> None:
        self.text.scroll_rows(by)

    def page(self, by: int) -> None:
        self.text.scroll_pages(by)

    def jump(self, to_end: bool) -> None:
        self.text.jump(to_end)
