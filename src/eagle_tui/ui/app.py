"""The application: polls the client once a second and hands each snapshot to the screens.

It is a disposable client: it owns no work, and leaving it, by key, signal or crash, touches nothing
else. Everything that waits does so in one asynchronous loop, never in a widget.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.message import Message
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from eagle_tui.client_api import ClientError, RunClient
from eagle_tui.clock import Clock, SystemClock
from eagle_tui.protocol import CommandStatus, Event, Status
from eagle_tui.ui.attention import Attention
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.memory import GIVE_BACK_S, give_back
from eagle_tui.ui.past import Past
from eagle_tui.ui.provider import ActionProvider
from eagle_tui.ui.screens.base import RunScreen
from eagle_tui.ui.screens.catalog import SCREENS
from eagle_tui.ui.screens.overview import OverviewScreen
from eagle_tui.ui.terminal_app import TerminalApp
from eagle_tui.ui.work import begin

POLL_S = 1.0
ANSWER_S = 10.0
"""A supervisor that takes longer counts as not answering."""
EVENTS_EVERY = 2
"""Polls between two looks at the event log."""
EVENTS_KEPT = 500
READONLY = "This screen is read-only: it sends no commands."
LATE_S = 1.2
"""The clock goes on by itself when no snapshot came for so long."""
LOADED_S = 2.0
"""When the program is loaded and drawn, if garbage was left alone until then."""
_POLL_GROUP = "poll"
_HERE = Path(__file__).parent


def _collect_again() -> None:
    """Look for garbage from now on, but not among what the program consists of: the pause of a full
    look grows with that. What is garbage by now would be kept for good otherwise: 6 MB."""
    gc.collect()
    gc.freeze()
    gc.enable()


class EagleApp(TerminalApp, inherit_bindings=False):
    """The screen of one run."""

    TITLE = "eagle-tui"
    mode = ""
    """`replay` or `down` where a run is shown as it was (see the registry's `modes`)."""
    banner = ""
    """What the header says of that."""
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {ActionProvider}
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        _HERE / "app.tcss",
        *sorted((_HERE / "screens").glob("*.tcss")),
    ]
    SCREENS = dict(SCREENS)  # noqa: RUF012 - Textual's own declaration has no ClassVar
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", "Detach", show=False),
        Binding("ctrl+c", "hint", "How to leave", show=False),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False),
    ]

    class Snapshot(Message):
        """A poll ended: there is a newer status, or a sentence why there is none."""

        def __init__(self, status: Status | None, problem: str) -> None:
            self.status, self.problem = status, problem
            super().__init__()

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, EagleApp.Snapshot)

    def __init__(
        self,
        client: RunClient,
        *,
        readonly: bool = False,
        clock: Clock | None = None,
        first: Status | None = None,
        poll_s: float = POLL_S,
        title: bool = False,
        bell: bool = False,
        **looks: Any,
    ) -> None:
        """`first`: the run as it is now, where that is known already: then the first thing drawn
        is the run. `title` and `bell`: whether the terminal's are used. `looks` are the arguments
        of `TerminalApp`."""
        self.client = client
        self.readonly = readonly or bool(client.readonly)
        self.refusal = client.readonly or READONLY
        """Why no order is sent, where none is."""
        self.clock = clock or SystemClock()
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.frame = None if first is None else Frame(first, self.clock.wall())
        self.past = Past()
        self._attention = Attention(self._to_terminal, title=title, bell=bell)
        self._poll_s = poll_s
        self._polled = 0
        self._drawn = float("-inf")
        """When a snapshot was drawn, by the loop's time."""
        self._wake = asyncio.Event()
        self._arrived = self.clock.monotonic()
        super().__init__(**looks)

    def get_default_screen(self) -> Screen[None]:
        return OverviewScreen()

    @property
    def main(self) -> OverviewScreen:
        """The overview, which always lies at the bottom of the stack."""
        screen = self.screen_stack[0]
        assert isinstance(screen, OverviewScreen)
        return screen

    @property
    def shown(self) -> RunScreen | None:
        """The numbered screen in sight: on top, or under dialogs; None under a page of help."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, RunScreen):
                return screen
            if not screen.is_modal:
                return None
        return None

    @property
    def _background_screens(self) -> list[Screen[Any]]:
        """Textual takes the screen below the top one for visible, however opaque the top one is,
        and repaints all of the top one whenever a message reaches the one below. Only dialogs let
        something through."""
        return super()._background_screens if self.screen.is_modal else []

    @property
    def scope(self) -> RunScreen:
        """The numbered screen that acts, whatever lies over it."""
        screens = [item for item in self.screen_stack if isinstance(item, RunScreen)]
        return screens[-1]

    def open_screen(self, name: str) -> None:
        """Show a numbered screen. It keeps its place, cursor and filters while another is shown."""
        if name == self.scope.NAME:
            return
        if name == self.main.NAME:
            self.pop_screen()
        elif len(self.screen_stack) > 1:
            self.switch_screen(name)
        else:
            self.push_screen(name)

    def on_mount(self) -> None:
        self.watch_terminal()
        # What the tables made for the theme before is made anew.
        self.theme_changed_signal.subscribe(self, lambda _theme: self._show_newest())

    def on_unmount(self) -> None:
        self._attention.restore()
        self.terminal.stop()

    def start(self) -> None:
        """Begin to poll; the main screen calls this when its panels are there."""
        if self.frame is not None:
            self._tell(self.frame.status)
        self.set_interval(1.0, self._tick)
        self.set_interval(GIVE_BACK_S, give_back)
        self._start_polling()
        if not gc.isenabled():
            self.set_timer(LOADED_S, _collect_again)

    def act(self, action_id: str) -> None:
        """Do an action of the registry, from wherever it was chosen."""
        self.scope.action_act(action_id)

    def _to_terminal(self, text: str) -> None:
        if self._driver is not None:
            self._driver.write(text)

    def act_in_mode(self, action_id: str) -> None:
        """Do an action that acts in a mode alone; a live run has none."""

    def action_leave(self) -> None:
        """Leave the screen; the run goes on."""
        self.exit()

    def action_hint(self) -> None:
        self.notify("q leaves the screen; the run goes on either way.", markup=False)

    def poll_soon(self) -> None:
        """Ask again at once, as after a command."""
        self._wake.set()

    async def send(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        """Give an order. Raises ClientError; a read-only screen sends none."""
        if self.readonly:
            raise ClientError(self.refusal)
        answer = await self.client.command(verb, args)
        self.poll_soon()
        return answer

    async def poll_once(self) -> None:
        """One look at the run. Never raises for a supervisor that does not answer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                status = await self.client.status()
                if self._polled % EVENTS_EVERY == 0:
                    after = self.events[-1].id if self.events else 0
                    news = await self.client.events(after, EVENTS_KEPT)
                    self.events.extend(news)
                    if news:
                        self.past.want_marks()
        except ClientError as error:
            self.post_message(self.Snapshot(None, str(error)))
        except TimeoutError:
            sentence = f"The supervisor has not answered for {ANSWER_S:.0f} s."
            self.post_message(self.Snapshot(None, sentence))
        else:
            self._polled += 1
            self.post_message(self.Snapshot(status, ""))

    def on_eagle_app_snapshot(self, message: Snapshot) -> None:
        now = self.clock.monotonic()
        if message.status is not None:
            self._arrived = now
            if self.frame is not None and self.frame.stale:
                self.past.start_over()
            self.past.live(message.status)
            self.frame = Frame(message.status, self.clock.wall())
            self._tell(message.status)
        elif self.frame is None:
            self.scope.no_answer(message.problem)
            return
        else:
            self.frame = Frame(
                self.frame.status, self.clock.wall(), now - self._arrived, message.problem
            )
        if self.worth_drawing(now):
            self._show_newest()

    def _tell(self, status: Status) -> None:
        """Title and bell."""
        self._attention.show(status, f"{self.mode} " if self.mode else "")

    def _show_newest(self) -> None:
        screen = self.shown
        if self.frame is not None and screen is not None and screen.is_mounted:
            self._drawn = asyncio.get_running_loop().time()
            screen.show_frame(self.frame)

    def on_app_focus(self) -> None:
        """Somebody looks again: what was left out while nobody did is shown at once."""
        self._show_newest()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault in our own polling is shown like a silent supervisor, and polling goes on."""
        if event.worker.group == _POLL_GROUP and event.state is WorkerState.ERROR:
            fault = f"The screen failed to read the run: {event.worker.error!r}."
            self.post_message(self.Snapshot(None, fault))
            self.set_timer(5.0, self._start_polling)

    def _start_polling(self) -> None:
        begin(self, self._poll_forever, group=_POLL_GROUP, exclusive=True, told=False)

    async def _poll_forever(self) -> None:
        """Poll, then wait for the rest of the second: slow polls never overlap."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            self._wake.clear()
            await self.poll_once()
            rest = max(self._poll_s - (loop.time() - started), self._poll_s / 4)
            try:
                async with asyncio.timeout(rest):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _tick(self) -> None:
        self.terminal.check()
        screen = self.shown
        # As a rule the clock goes on with the figures: one painting for both.
        late = asyncio.get_running_loop().time() - self._drawn > LATE_S
        if late and self.app_focus and screen is not None and screen.is_mounted:
            screen.tick()
