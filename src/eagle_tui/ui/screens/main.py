"""The main screen: all that matters about a run at one glance, and every action one key away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.timer import Timer

from eagle_tui.actions import ACTIONS, BY_ID
from eagle_tui.client_api import ClientError
from eagle_tui.ui.frame import KEEP_S, Frame
from eagle_tui.ui.journal import command_text, entries
from eagle_tui.ui.layout import Plan, plan
from eagle_tui.ui.screens.dialog import ActionDialog
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.help import HelpScreen
from eagle_tui.ui.widgets.alert import AlertLine
from eagle_tui.ui.widgets.datasets import DatasetTable
from eagle_tui.ui.widgets.events import EventLines
from eagle_tui.ui.widgets.footer import KeyFooter
from eagle_tui.ui.widgets.gpus import GpuPanel
from eagle_tui.ui.widgets.header import Header
from eagle_tui.ui.widgets.phases import PhaseStrip
from eagle_tui.ui.widgets.samples import SamplePane
from eagle_tui.ui.widgets.throughput import (
    COARSE_STEP_S,
    FINE_S,
    FINE_STEP_S,
    ThroughputPanel,
    server_rows,
)

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

SAMPLES_EVERY_S = 10.0
SAMPLES_FETCHED = 20


class MainScreen(Screen[None]):
    """Header, phases, alert, GPUs, throughput, datasets, sample, events, footer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(action.key, f"act('{action.id}')", action.label, show=False, id=action.id)
            for action in ACTIONS
            if action.key
        ),
        Binding("up,k", "select(-1)", show=False),
        Binding("down,j", "select(1)", show=False),
        Binding("pageup", "scroll_sample(-1)", show=False),
        Binding("pagedown,space", "scroll_sample(1)", show=False),
        Binding("home", "scroll_sample(-1000000)", show=False),
        Binding("end", "scroll_sample(1000000)", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self._plan: Plan | None = None
        self._history_wanted = True
        self._sample_timer: Timer | None = None
        self.header, self.phases, self.alert = Header(), PhaseStrip(id="phases"), AlertLine()
        self.gpus, self.throughput = GpuPanel(id="gpus"), ThroughputPanel(id="throughput")
        self.datasets = DatasetTable(id="datasets")
        self.samples, self.journal = SamplePane(id="samples"), EventLines(id="events")
        self.footer = KeyFooter()

    @property
    def eagle(self) -> EagleApp:
        """The app, typed."""
        return cast("EagleApp", self.app)

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
        self._sample_timer = self.set_timer(SAMPLES_EVERY_S, self.load_samples)
        self._arrange()
        self.call_after_refresh(self.eagle.start)

    def on_resize(self, _event: events.Resize) -> None:
        self._arrange()

    # What arrives

    def show_frame(self, frame: Frame) -> None:
        """Hand one snapshot to every panel; each repaints what changed."""
        self.set_class(frame.stale, "-stale")
        self._arrange(frame)
        self.header.show(frame)
        self.alert.show(frame)
        if frame.stale:
            self._history_wanted = True
            return
        self.phases.show(frame)
        self.gpus.show(frame)
        self.throughput.show(frame)
        self.datasets.show(frame)
        self.footer.show(frame.status)
        self.journal.show(entries(self.eagle.events, frame.status.commands))
        if self._history_wanted:
            self._history_wanted = False
            self.run_worker(self._load_history(), group="history", exclusive=True)

    def no_answer(self, sentence: str) -> None:
        """There is no snapshot yet, and this is why."""
        self.alert.complain(sentence)

    def tick(self) -> None:
        """A second has passed, whether or not anything arrived."""
        self.header.tick()

    # What is asked for

    async def _load_history(self) -> None:
        """The chart's past: fine for the last minutes, coarse before them."""
        now, client = self.eagle.clock.wall(), self.eagle.client
        try:
            fine = await client.history("tok_s", now - FINE_S, FINE_STEP_S)
            coarse = await client.history("tok_s", now - KEEP_S, COARSE_STEP_S)
        except ClientError:
            return  # the poll says so, too, and makes us ask again when it is answered
        first = fine.points[0].t if fine.points else now
        series = self.throughput.series
        series.extend((point.t, point.mean) for point in coarse.points if point.t < first)
        series.extend((point.t, point.mean) for point in fine.points)
        if self.eagle.frame is not None:
            self.throughput.show(self.eagle.frame)

    def load_samples(self) -> None:
        """Ask for the selected dataset's samples now, and again after a while."""
        if self._sample_timer is not None:
            self._sample_timer.stop()
        self.run_worker(self._load_samples(), group="samples", exclusive=True)

    async def _load_samples(self) -> None:
        pane = self.samples
        try:
            samples = await self.eagle.client.samples(pane.dataset, pane.kind, SAMPLES_FETCHED)
        except ClientError as error:
            pane.receive((), str(error))
        else:
            pane.receive(samples)
        self._sample_timer = self.set_timer(SAMPLES_EVERY_S, self.load_samples)

    def on_dataset_table_selected(self, message: DatasetTable.Selected) -> None:
        pane = self.samples
        pane.aim(message.dataset, pane.kind)
        self.load_samples()

    # What the operator does

    def action_act(self, action_id: str) -> None:
        """Do an action of the registry: an order, or something on this screen."""
        action = BY_ID[action_id]
        if action.verb is None:
            getattr(self, f"_do_{action_id}")()
        elif self.eagle.readonly:
            self.notify("This screen is read-only: it sends no commands.", markup=False)
        elif action.params or action.confirm:
            selected = self.datasets.selected
            status = self.eagle.frame.status if self.eagle.frame else None
            self.app.push_screen(ActionDialog(action, status, selected))
        else:
            self.run_worker(self._send(action.verb), group="command", exit_on_error=False)

    async def _send(self, verb: str) -> None:
        try:
            answer = await self.eagle.send(verb, {})
        except ClientError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if answer.state == "refused":
            text = f"{command_text(verb, {})} was refused: {answer.reason or 'no reason given'}"
            self.notify(text, severity="error", markup=False)
        else:
            self.notify(f"{verb}: {answer.state.replace('_', ' ')}", markup=False, timeout=2)

    def action_select(self, by: int) -> None:
        self.datasets.move(by)

    def action_scroll_sample(self, pages: int) -> None:
        pane = self.samples
        pane.scroll_rows(pages * max(pane.size.height - 2, 1))

    def _do_next_sample(self) -> None:
        if not self.samples.step(1):
            self.notify("This is the last of the samples fetched.", timeout=2, markup=False)

    def _do_previous_sample(self) -> None:
        if not self.samples.step(-1):
            self.notify("This is the first sample; there is no newer one.", timeout=2, markup=False)

    def _do_sample_kind(self) -> None:
        pane = self.samples
        pane.aim(pane.dataset, pane.next_kind())
        self.load_samples()

    def _do_fold(self) -> None:
        self.samples.fold()

    def _do_events(self) -> None:
        self.app.push_screen(EventsScreen())

    def _do_help(self) -> None:
        self.app.push_screen(HelpScreen())

    def _do_quit(self) -> None:
        self.eagle.action_leave()

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
