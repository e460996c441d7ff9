"""The screens of a run as it was: the same ones, on a time that can be moved; no orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from eagle_tui import fmt
from eagle_tui.actions import ACTIONS
from eagle_tui.client_api import ClientError, PastClient
from eagle_tui.place import EXAMPLES, share_of, time_of
from eagle_tui.protocol import Status
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.widgets.ask import AskLine
from eagle_tui.ui.work import begin

STEP_S, FAST_STEP_S = 10.0, 60.0
"""What a step goes, and what it goes where a second is a minute or more."""
FAST = 60.0
CATCH_UP_S = 3.0
"""When the time went on by more than this between two looks, the snapshots alone would leave gaps
in the charts: their history is read again."""
GO_ON = "up"
"""What the program returns when the operator wants the run to go on."""


def banner(status: Status | None, at: float, playing: bool, speed: float, down: bool) -> str:
    """What the header says: that this is a replay, of when, and how it runs. Of a run that is down
    it says so as long as its last moment is shown."""
    when = f"{fmt.day(at)} {fmt.clock(at)}"
    gone = ", no supervisor then" if status and status.supervisor.state == "gone" else ""
    runs = f"playing x{speed:g}" if playing else f"stopped x{speed:g}"
    return f"{'DOWN, as of' if down else 'REPLAY'} {when}{gone}{'' if down else ' ' + runs}"


class WhenScreen(ModalScreen[None]):
    """One line at the bottom that asks for a time of the run."""

    def __init__(self, seek: Callable[[str], None]) -> None:
        """`seek` goes to what was typed."""
        super().__init__()
        self._seek = seek
        self._line = AskLine()

    def compose(self) -> ComposeResult:
        yield self._line

    def on_mount(self) -> None:
        self._line.ask("go to", "", EXAMPLES)

    def on_ask_line_answered(self, message: AskLine.Answered) -> None:
        self.dismiss(None)
        if message.text:
            self._seek(message.text)

    def on_ask_line_left(self) -> None:
        self.dismiss(None)


class ReplayApp(EagleApp):
    """Shows what a `PastClient` tells. `run()` gives GO_ON when the run is to be started again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Before the screens' own keys: the blank, for one, pages elsewhere.
        Binding(
            action.key,
            f"replay('{action.id}')",
            action.label,
            show=False,
            priority=True,
            id=action.id,
        )
        for action in ACTIONS
        if action.modes and action.key
    ]

    def __init__(self, client: PastClient, *, can_go_on: bool = False, **options: Any) -> None:
        """`can_go_on`: the run is down and of this machine, so it can be started again."""
        self._past_client = client
        self._timeline = client.timeline
        self._can_go_on = can_go_on
        self._shown_at = client.timeline.now()
        self.wants = ""
        super().__init__(client, **options)
        self.mode = "down" if can_go_on else "replay"

    @property
    def banner(self) -> str:  # type: ignore[override]
        """See `banner`."""
        time = self._timeline
        at_end = self._can_go_on and not time.jumps and not time.playing
        status = self.frame.status if self.frame else None
        return banner(status, time.now(), time.playing, time.speed, at_end)

    async def on_unmount(self) -> None:  # type: ignore[override]
        await self._past_client.close()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A text that is typed holds blanks and commas, too."""
        if action == "replay" and (isinstance(self.focused, Input) or self.screen.is_modal):
            return False
        return super().check_action(action, parameters)

    def action_replay(self, action_id: str) -> None:
        self.act_in_mode(action_id)

    def act_in_mode(self, action_id: str) -> None:
        """Do one of the replay's actions."""
        time = self._timeline
        step = FAST_STEP_S if time.speed >= FAST else STEP_S
        acts: dict[str, Callable[[], object]] = {
            "replay_play": time.toggle,
            "replay_back": lambda: time.step(-step),
            "replay_on": lambda: time.step(step),
            "replay_slower": time.slower,
            "replay_faster": time.faster,
            "replay_next_mark": lambda: self._to_mark(True),
            "replay_previous_mark": lambda: self._to_mark(False),
            "replay_to": lambda: self.push_screen(WhenScreen(self._to_time)),
            "go_on": self._go_on,
        }
        jumps = time.jumps
        acts[action_id]()
        if time.jumps != jumps:
            self._jumped()
        self.poll_soon()

    def _to_mark(self, forward: bool) -> None:
        async def go() -> None:
            try:
                mark = await self._past_client.neighbour_mark(forward)
            except ClientError as error:
                self.notify(str(error), severity="error", markup=False)
                return
            if mark is None:
                where = "after" if forward else "before"
                self.notify(f"There is no mark {where} this moment.", timeout=2, markup=False)
                return
            self._timeline.seek(mark.at)
            self._jumped()
            self.notify(f"{mark.kind}: {mark.text}", timeout=4, markup=False)
            self.poll_soon()

        begin(self, go, group="mark", exclusive=True)

    def _to_time(self, text: str) -> None:
        time = self._timeline
        try:
            share = share_of(text)
            length = time.end - time.start
            at = time_of(text, time.end) if share is None else time.start + length * share
        except ValueError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        time.seek(at)
        self._jumped()
        self.poll_soon()

    def _go_on(self) -> None:
        if not self._can_go_on:
            self.notify("A replay starts no run.", timeout=2, markup=False)
            return
        self.wants = GO_ON
        self.exit()

    def _jumped(self) -> None:
        """The time was set: what was collected on the way is not of now."""
        self.events.clear()
        self._polled = 0
        self.past.rewind()
        self.scope.load_soon()

    async def poll_once(self) -> None:
        jumps = self._timeline.jumps
        await super().poll_once()
        if self._timeline.jumps != jumps:
            # The answers were of before the jump.
            self._jumped()
            return
        at = self._timeline.now()
        if at - self._shown_at > CATCH_UP_S:
            self.past.start_over()
        self._shown_at = at
