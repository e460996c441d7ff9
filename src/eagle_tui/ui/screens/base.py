"""What all numbered screens share: header, alert line and footer, the registry's keys, orders.

A screen gives its name, a body and what to draw from a snapshot. The application polls the run
once, whatever screen is shown, and hands each snapshot to the one in sight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.timer import Timer

from eagle_tui.actions import BY_ID, Action, actions_on
from eagle_tui.client_api import ClientError
from eagle_tui.ui.compositor import LeanCompositor
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.journal import command_text
from eagle_tui.ui.screens.dialog import ActionDialog
from eagle_tui.ui.screens.help import HelpScreen
from eagle_tui.ui.screens.retune import RetuneDialog
from eagle_tui.ui.widgets.alert import AlertLine
from eagle_tui.ui.widgets.footer import KeyFooter
from eagle_tui.ui.widgets.header import Header
from eagle_tui.ui.work import begin

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

_MOVES: tuple[BindingType, ...] = (
    Binding("up,k", "move(-1)", show=False),
    Binding("down,j", "move(1)", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("pagedown,space", "page(1)", show=False),
    Binding("home", "jump(False)", show=False),
    Binding("end", "jump(True)", show=False),
)


def keys_of(screen: str) -> list[BindingType]:
    """The `BINDINGS` of a screen: what the registry says acts on it, and the keys that move."""
    bound: list[BindingType] = [
        Binding(
            ",".join((action.key, *action.more_keys)),
            f"act('{action.id}')",
            action.label,
            show=False,
            id=action.id,
        )
        for action in actions_on(screen)
        if action.key
    ]
    taken = {
        key
        for action in actions_on(screen)
        for key in (action.key, *action.more_keys)
        if key is not None
    }
    for move in _MOVES:
        assert isinstance(move, Binding)
        free = [key for key in move.key.split(",") if key not in taken]
        if free:
            bound.append(Binding(",".join(free), move.action, show=False))
    return bound


DIALOGS: dict[str, type[ActionDialog]] = {"retune": RetuneDialog}
"""Actions whose dialog is more than their parameters."""


class RunScreen(Screen[None]):
    """One of the screens that the number keys open.

    A subclass gives `NAME` (as in the registry), `BINDINGS = keys_of(NAME)`, `body` and `show`;
    an action `x` of the registry that is no order and opens nothing is its method `do_x`. What it
    asks of the run beside the status is fetched by `load`, when it comes into sight and then every
    `LOAD_EVERY_S`.
    """

    NAME: ClassVar[str]
    LOAD_EVERY_S: ClassVar[float | None] = None
    """How often `load` runs while the screen is in sight; None: it has nothing to load."""
    AUTO_FOCUS: ClassVar[str | None] = ""

    def __init__(self) -> None:
        super().__init__()
        self._compositor = LeanCompositor()
        self.header, self.alert = Header(), AlertLine()
        self.footer = KeyFooter(self.NAME)
        self._load_timer: Timer | None = None

    # What a subclass gives

    def body(self) -> ComposeResult:
        """The widgets between the alert line and the footer."""
        raise NotImplementedError

    def show(self, frame: Frame) -> None:
        """Draw what changed. Not called while the supervisor does not answer."""

    async def load(self) -> None:
        """Fetch what the status does not hold. A ClientError is left to the alert line."""

    def selected_dataset(self) -> str | None:
        """The dataset that an order most likely concerns."""
        return None

    def move(self, by: int) -> None:
        """↑ ↓: by rows."""

    def page(self, by: int) -> None:
        """PgUp PgDn: by pages."""

    def jump(self, to_end: bool) -> None:
        """Home, End."""

    # What all have

    @property
    def eagle(self) -> EagleApp:
        """The app, typed."""
        return cast("EagleApp", self.app)

    @property
    def in_sight(self) -> bool:
        """Whether this is the screen shown, perhaps under a dialog."""
        return self.eagle.shown is self

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.alert
        yield from self.body()
        yield self.footer

    def on_screen_resume(self) -> None:
        """Back in sight: draw the newest snapshot at once, and load."""
        if self.eagle.frame is not None:
            self.call_after_refresh(self.show_newest)
        self.load_soon()

    def show_newest(self) -> None:
        """Draw the newest snapshot."""
        if self.eagle.frame is not None and self.is_attached:
            self.show_frame(self.eagle.frame)

    def show_frame(self, frame: Frame) -> None:
        """Hand one snapshot to every part; each repaints what changed."""
        self.set_class(frame.stale, "-stale")
        self.header.show(frame)
        self.alert.show(frame)
        self.footer.show(frame.status)
        if not frame.stale:
            self.show(frame)

    def no_answer(self, sentence: str) -> None:
        """There is no snapshot yet, and this is why."""
        self.alert.complain(sentence)

    def tick(self) -> None:
        """A second has passed, and nothing arrived."""
        self.header.tick()

    def load_soon(self) -> None:
        """Run `load` now, and again after a while."""
        if self.LOAD_EVERY_S is None:
            return
        if self._load_timer is not None:
            self._load_timer.stop()
        begin(self, self._load, group="load", exclusive=True)

    async def _load(self) -> None:
        try:
            if self.in_sight:
                await self.load()
        except ClientError:
            pass  # the poll meets it, too, and the alert line says it
        except Exception:
            self._load_later()
            raise
        self._load_later()

    def _load_later(self) -> None:
        assert self.LOAD_EVERY_S is not None
        if self.in_sight:
            self._load_timer = self.set_timer(self.LOAD_EVERY_S, self.load_soon)

    # What the operator does

    def action_move(self, by: int) -> None:
        self.move(by)

    def action_page(self, by: int) -> None:
        self.page(by)

    def action_jump(self, to_end: bool) -> None:
        self.jump(to_end)

    def action_act(self, action_id: str) -> None:
        """Do an action of the registry: an order, another screen, or something on this one."""
        action = BY_ID[action_id]
        if action.opens:
            self.eagle.open_screen(action.opens)
        elif action.modes:
            self.eagle.act_in_mode(action_id)
        elif action.verb is None:
            getattr(self, f"do_{action_id}")()
        elif self.eagle.readonly:
            self.notify(self.eagle.refusal, markup=False)
        else:
            self.order(action)

    def order(self, action: Action) -> None:
        """Give an order: at once, or by its dialog when there is something to ask."""
        if action.params or action.confirm:
            status = self.eagle.frame.status if self.eagle.frame else None
            dialog = DIALOGS.get(action.id, ActionDialog)
            self.app.push_screen(dialog(action, status, self.selected_dataset()))
        else:
            assert action.verb is not None
            begin(self, self._send, action.verb, group="command")

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

    def do_report(self) -> None:
        async def write() -> None:
            try:
                path = await self.eagle.client.report()
            except ClientError as error:
                self.notify(str(error), severity="error", markup=False)
            else:
                self.notify(f"Written: {path}", markup=False, timeout=8)

        begin(self, write, group="report", exclusive=True)

    def do_help(self) -> None:
        self.app.push_screen(HelpScreen(self.NAME))

    def do_back(self) -> None:
        """Leave what is open; a subclass closes its own parts first."""
        self.eagle.open_screen("overview")

    def do_redraw(self) -> None:
        """For a terminal that something else has written to."""
        self.eagle.repaint()

    def do_quit(self) -> None:
        self.eagle.action_leave()
