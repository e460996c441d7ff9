"""The overview: all that matters about a run at one glance, and every action one key away."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container

from eagle_tui.client_api import ClientError
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.journal import entries
from eagle_tui.ui.layout import Plan, plan
from eagle_tui.ui.screens.base import keys_of
from eagle_tui.ui.screens.charted import ChartedScreen
from eagle_tui.ui.widgets.datasets import DatasetTable
from eagle_tui.ui.widgets.events import EventLines
from eagle_tui.ui.widgets.gpus import GpuPanel
from eagle_tui.ui.widgets.phases import PhaseStrip
from eagle_tui.ui.widgets.samples import SamplePane
from eagle_tui.ui.widgets.table import Table
from eagle_tui.ui.widgets.throughput import ThroughputPanel, server_rows

SAMPLES_EVERY_S = 10.0
SAMPLES_FETCHED = 20
HOUR_S = 3600
FAR = 1_000_000
"""Rows beyond the end of anything."""


class OverviewScreen(ChartedScreen):
    """Header, phases, alert, GPUs, throughput, datasets, sample, events, footer."""

    NAME = "overview"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = SAMPLES_EVERY_S

    def __init__(self) -> None:
        super().__init__()
        self._plan: Plan | None = None
        self._told: tuple[object, ...] = ()
        """What the journal was made of: events, commands, and the hour, since what is of another
        day is shown with its date."""
        self.phases = PhaseStrip(id="phases")
        self.gpus, self.throughput = GpuPanel(id="gpus"), ThroughputPanel(id="throughput")
        self.datasets = DatasetTable(id="datasets")
        self.samples, self.journal = SamplePane(id="samples"), EventLines(id="events")

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.phases
        yield self.alert
        yield Container(self.gpus, self.throughput, id="top")
        yield self.datasets
        yield Container(self.samples, self.journal, id="bottom")
        yield self.footer

    def on_mount(self) -> None:
        self.throughput.border_title = "throughput, tokens/s"
        self.datasets.border_title = "datasets"
        self.samples.border_title = "sample"
        self.journal.border_title = "events and commands"
        self._arrange()
        self.show_newest()
        self.call_after_refresh(self.eagle.start)

    def on_resize(self, _event: events.Resize) -> None:
        self._arrange()

    # What arrives

    def show_frame(self, frame: Frame) -> None:
        self._arrange(frame)
        super().show_frame(frame)

    def show(self, frame: Frame) -> None:
        self.phases.show(frame)
        self.gpus.show(frame)
        self.throughput.show(frame)
        self.datasets.show(frame)
        events, commands = self.eagle.events, frame.status.commands
        told = (events[-1].id if events else None, commands, frame.now // HOUR_S)
        if told != self._told:
            self._told = told
            self.journal.show(entries(events, commands))

    # What is asked for

    def metrics(self) -> list[str]:
        return [self.throughput.chart.metric]

    def redraw_charts(self) -> None:
        self.throughput.chart.redraw()

    async def load(self) -> None:
        pane = self.samples
        try:
            samples = await self.eagle.client.samples(pane.dataset, pane.kind, SAMPLES_FETCHED)
        except ClientError as error:
            pane.receive((), str(error))
        else:
            pane.receive(samples)

    def on_table_selected(self, message: Table.Selected) -> None:
        pane = self.samples
        pane.aim(message.key, pane.kind)
        self.load_soon()

    # What the operator does

    def selected_dataset(self) -> str | None:
        return self.datasets.selected

    def move(self, by: int) -> None:
        self.datasets.move(by)

    def page(self, by: int) -> None:
        self.samples.scroll_rows(by * max(self.samples.size.height - 2, 1))

    def jump(self, to_end: bool) -> None:
        self.samples.scroll_rows(FAR if to_end else -FAR)

    def do_next_sample(self) -> None:
        if not self.samples.step(1):
            self.notify("This is the last of the samples fetched.", timeout=2, markup=False)

    def do_previous_sample(self) -> None:
        if not self.samples.step(-1):
            self.notify("This is the first sample; there is no newer one.", timeout=2, markup=False)

    def do_sample_kind(self) -> None:
        pane = self.samples
        pane.aim(pane.dataset, pane.next_kind())
        self.load_soon()

    def do_fold(self) -> None:
        self.samples.fold()

    # Where things go

    def _arrange(self, frame: Frame | None = None) -> None:
        """Give the panels their rows. Touches nothing while size and counts stay the same."""
        frame = frame or self.eagle.frame
        status = frame.status if frame else None
        wanted = plan(
            self.size.width,
            self.size.height,
            len(status.gpus) if status else 0,
            len(status.datasets) if status else 0,
            server_rows(status.servers) if status else 0,
            len(self.footer.rows(self.size.width, self.size.height)),
        )
        if wanted == self._plan or not self.is_mounted:
            return
        self._plan = wanted
        border = 2 if wanted.framed else 0
        self.set_class(wanted.framed, "-framed")
        self.throughput.set_class(wanted.framed, "-tall")
        self.phases.styles.height = wanted.phase_rows
        self.gpus.styles.height = wanted.gpu_rows + border
        self.throughput.styles.height = wanted.throughput_rows + border
        self.datasets.styles.height = wanted.table_rows + border
        self.journal.display = wanted.framed or wanted.event_rows > 0
        self.journal.styles.height = "1fr" if wanted.framed else wanted.event_rows
