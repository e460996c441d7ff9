"""The phases screen: durations, estimates against what came, and what each phase made from what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from eagle_tui.client_api import ClientError
from eagle_tui.protocol import Estimate
from eagle_tui.records import PhaseRecord
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.phase_lines import PhaseLines
from eagle_tui.ui.screens.base import RunScreen, keys_of
from eagle_tui.ui.screens.page import Page
from eagle_tui.ui.widgets.phase_table import PhaseTable
from eagle_tui.ui.widgets.table import Table


class PhasesScreen(RunScreen):
    """All phases, and the selected one below."""

    NAME = "phases"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.table = PhaseTable(id="table")
        self.text = Page(self.lines, id="detail")
        self._records: dict[str, PhaseRecord] = {}
        self._estimates: Sequence[Estimate] = ()
        self._problem = ""

    def body(self) -> ComposeResult:
        yield self.table
        yield self.text

    def show(self, frame: Frame) -> None:
        rows = len(frame.status.phases) + 1
        if self.table.styles.height is None or self.table.styles.height.value != rows:
            self.table.styles.height = rows
        self.table.show(frame)
        self._show_detail()

    def _show_detail(self) -> None:
        title = self.table.selected or ""
        if self.text.border_title != title:
            self.text.border_title = title
        self.text.redraw()

    async def load(self) -> None:
        """Manifests, attempts and estimates."""
        client = self.eagle.client
        try:
            self._estimates = self.table.estimates = await client.estimates()
            self._records = {item.phase: item for item in await client.phase_records()}
            self._problem = ""
        except ClientError as error:
            self._problem = str(error)
        self.table.fill()
        self._show_detail()

    def lines(self, width: int) -> Sequence[Line]:
        """Everything about the selected phase."""
        app, phase = self.eagle, self.table.phase
        if phase is None:
            return []
        writer = PhaseLines(app.palette, app.glyphs, app.clock.wall(), width)
        found = writer.all(phase, self._records.get(phase.name), self._estimates)
        if self._problem:
            found.append(Pen().add(f" {self._problem}", app.palette.error).segments)
        return found

    @on(Table.Selected)
    def _selected(self) -> None:
        self.text.jump(False)
        self._show_detail()

    def move(self, by: int) -> None:
        self.table.move(by)

    def page(self, by: int) -> None:
        self.text.scroll_pages(by)

    def jump(self, to_end: bool) -> None:
        self.text.jump(to_end)
