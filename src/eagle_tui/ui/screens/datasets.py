"""The datasets screen: the table, sorted and filtered, and all that is known of one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input

from eagle_tui import fmt
from eagle_tui.protocol import DatasetStatus
from eagle_tui.ui.dataset_order import SORTS, next_sort
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.screens.base import keys_of
from eagle_tui.ui.screens.charted import ChartedScreen
from eagle_tui.ui.widgets.ask import AskLine
from eagle_tui.ui.widgets.dataset_detail import (
    CapOffer,
    Caps,
    DatasetFacts,
    FinishMix,
    Histogram,
    offered_caps,
)
from eagle_tui.ui.widgets.datasets import DatasetTable
from eagle_tui.ui.widgets.table import Table
from eagle_tui.ui.widgets.timechart import TimeChart

SPLIT_HEIGHT = 36
"""Rows from which table and detail stand one above the other."""
DETAIL_LEAST = 20
"""Rows that the detail gets beside the table."""
HALF_LEAST = 7
"""Rows left below the table from which figures and rate of the selected dataset stand there."""
DETAIL_WHOLE = 23
"""Rows of the terminal from which the caps have room in the detail, too."""
_AROUND = 3
"""Rows of header, alert line and footer."""


class DatasetDetail(Vertical):
    """What is known of one dataset."""

    def __init__(self) -> None:
        self.facts, self.histogram = DatasetFacts(id="facts"), Histogram(id="lengths")
        self.chart = TimeChart(label=fmt.rate, id="rate")
        self.finish, self.caps = FinishMix(id="finish"), Caps(id="caps")
        super().__init__(
            self.facts, self.chart, Horizontal(self.histogram, self.finish), self.caps, id="detail"
        )

    def on_mount(self) -> None:
        self.chart.border_title = "responses per minute"
        self.histogram.border_title = "tokens per response"
        self.finish.border_title = "how they ended"
        self.caps.border_title = "caps, and what lower ones would save"

    def show(self, row: DatasetStatus | None, frame: Frame) -> None:
        """Draw a dataset; what was asked for one shown before goes away."""
        if row is None or self.facts.row is None or row.name != self.facts.row.name:
            self.finish.failures, self.caps.offers = (), ()
        self.facts.row = self.histogram.row = self.finish.row = self.caps.row = row
        self.facts.now, self.caps.total = frame.now, frame.status.total
        self.chart.metric = f"dataset.{row.name}.rate_per_min" if row else ""
        for canvas in (self.facts, self.chart, self.histogram, self.finish, self.caps):
            canvas.redraw()


class DatasetsScreen(ChartedScreen):
    """All datasets; Enter shows one alone."""

    NAME = "datasets"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.table, self.detail, self.asking = DatasetTable(id="table"), DatasetDetail(), AskLine()

    def body(self) -> ComposeResult:
        yield Container(self.table, self.detail, id="panes")
        yield self.asking

    def on_mount(self) -> None:
        self.table.border_title = "datasets"

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height >= SPLIT_HEIGHT, "-split")
        self.set_class(event.size.height < DETAIL_WHOLE, "-short")
        self.set_class(event.size.width >= 100 and event.size.height >= SPLIT_HEIGHT, "-roomy")
        self._size_table()

    def _size_table(self) -> None:
        frame = self.eagle.frame
        needed = (len(frame.status.datasets) if frame else 1) + 2
        room = self.size.height - _AROUND
        split = self.has_class("-split")
        self.set_class(not split and room - needed >= HALF_LEAST, "-half")
        if split:
            border = 2 if self.has_class("-roomy") else 0
            needed = min(needed + border, max(room - DETAIL_LEAST, 4))
        wanted = str(needed) if split or self.has_class("-half") else "1fr"
        if str(self.table.styles.height) != wanted:
            self.table.styles.height = wanted

    @property
    def _detailed(self) -> bool:
        """Whether the detail is in sight."""
        return any(self.has_class(name) for name in ("-split", "-half", "-detail"))

    # What arrives

    def show(self, frame: Frame) -> None:
        self._size_table()
        self.table.show(frame)
        if self._detailed:
            self._show_detail(frame)

    def _row(self) -> DatasetStatus | None:
        return next((row for row in self.table.rows if row.name == self.table.selected), None)

    def _show_detail(self, frame: Frame) -> None:
        self.detail.show(self._row(), frame)

    def metrics(self) -> Sequence[str]:
        metric = self.detail.chart.metric
        return [metric] if self._detailed and metric else []

    def redraw_charts(self) -> None:
        self.detail.chart.redraw()

    async def load(self) -> None:
        """Reasons of failures, and what lower caps would save."""
        row = self._row()
        if row is None or not self._detailed:
            return
        client, detail = self.eagle.client, self.detail
        failures = await client.failures(row.name) if row.failed else []
        offers = []
        for tokens in [] if self.eagle.readonly else offered_caps(row):
            said = await client.preview("cap", {"dataset": row.name, "tokens": tokens})
            offers.append(CapOffer(tokens, said.sentence, said.allowed))
        if detail.facts.row is not None and detail.facts.row.name == row.name:
            detail.finish.failures, detail.caps.offers = failures, offers
            detail.finish.redraw()
            detail.caps.redraw()

    @on(Table.Selected)
    def _selected(self) -> None:
        if self.eagle.frame is not None and self._detailed:
            self._show_detail(self.eagle.frame)
            self.fetch_past()
            self.load_soon()

    # What the operator does

    def selected_dataset(self) -> str | None:
        return self.table.selected

    def move(self, by: int) -> None:
        self.table.move(by)

    def page(self, by: int) -> None:
        self.table.page(by)

    def jump(self, to_end: bool) -> None:
        self.table.jump(to_end)

    @on(Table.Opened)
    def do_open(self) -> None:
        """The selected dataset alone, or the table again."""
        self.toggle_class("-detail")
        self.call_after_refresh(self._opened)

    def _opened(self) -> None:
        self._selected()
        self.table.fill()

    def do_sort(self) -> None:
        self.table.sort = next_sort(self.table.sort)
        self._arranged()

    def do_filter(self) -> None:
        self.asking.ask("filter", self.table.filter, "part of a name, or a state such as running")

    def on_input_changed(self, message: Input.Changed) -> None:
        """The table follows while one types."""
        self.table.filter = message.value
        self._arranged()

    def _arranged(self) -> None:
        table = self.table
        parts = ["datasets"]
        if table.sort is not SORTS[0]:
            parts.append(f"by {table.sort.title}")
        if table.filter.strip():
            parts.append(f"with “{table.filter.strip()}”: {len(table.rows)}")
        title = ", ".join(parts)
        # What was typed is no markup.
        table.border_title = Content(title)
        table.fill()
        if not self.has_class("-roomy") or self.has_class("-detail"):
            self.notify(title, timeout=2, markup=False)

    def do_back(self) -> None:
        """The detail is closed first, then the filter is dropped, then the screen is left."""
        if self.has_class("-detail"):
            self.do_open()
        elif self.table.filter:
            self.table.filter = ""
            self._arranged()
        else:
            super().do_back()
