"""The one dialog: made from an action's parameters, with the supervisor's preview under them.

What an order does and costs is said by the supervisor (`client.preview`) for exactly the arguments
that stand in the fields, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widget import Widget

from eagle_tui.actions import Action, Param
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import Preview, Status
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.facts import default_phase, facts
from eagle_tui.ui.widgets.fields import (
    Changed,
    ChoiceField,
    FieldError,
    Left,
    Submitted,
    SwitchField,
    TextField,
    field_values,
)
from eagle_tui.ui.widgets.settings import SettingsField
from eagle_tui.ui.work import begin
from eagle_tui.ui.wrap import wrap

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

PREVIEW_AFTER_S = 0.2
"""Quiet time after the last change before the supervisor is asked."""
READ_S = 0.6
"""How long a warning must have been in sight before Enter is an answer to it."""
_TEXT_ROWS = 5
Field = ChoiceField | SwitchField | TextField | SettingsField


class Words(Canvas):
    """A few wrapped sentences in one style."""

    def __init__(self, id: str, text: str = "") -> None:
        super().__init__(id=id)
        self.text, self.style_name = text, "muted"

    def say(self, text: str, style_name: str = "text") -> None:
        """Show a sentence in a style of the palette; takes as many rows as it needs."""
        self.text, self.style_name = text, style_name
        self._fit()
        self.redraw()

    def on_resize(self) -> None:
        self._fit()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        style = getattr(self.palette, self.style_name)
        return [Pen().add(line, style).segments for line in wrap(self.text, width)[:height]]

    def _fit(self) -> None:
        rows = len(wrap(self.text, max(self.size.width, 20))) if self.text else 0
        self.display = rows > 0
        self.styles.height = min(rows, _TEXT_ROWS)


class ActionDialog(ModalScreen[None]):
    """Asks for an action's arguments, shows what it would do, and gives the order."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "Leave", show=False),
        Binding("enter,y", "confirm", "Do it", show=False),
        Binding("tab,down", "app.focus_next", show=False),
        Binding("shift+tab,up", "app.focus_previous", show=False),
    ]

    def __init__(self, action: Action, status: Status | None, dataset: str | None) -> None:
        super().__init__()
        self._action = action
        self._status = status
        self._fields = [self._field(param, dataset) for param in action.params]
        self._timer: Timer | None = None
        self._previewed: tuple[dict[str, Any], Preview] | None = None
        self._previewed_at = 0.0
        self._confirming = False

    @property
    def eagle(self) -> EagleApp:
        """The app, typed."""
        return cast("EagleApp", self.app)

    @property
    def verb(self) -> str:
        assert self._action.verb is not None
        return self._action.verb

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Words("about", self._action.help)
            yield Words("now")
            yield from self.fields()
            yield Words("preview")
            yield Words("keys", self._keys())

    def fields(self) -> ComposeResult:
        """What stands between the facts and the preview."""
        yield from self._fields

    def on_mount(self) -> None:
        self.query_one("#box").border_title = self._action.label
        first = next((field for field in self._fields if isinstance(field, TextField)), None)
        target: Widget | None = self._fields[0] if self._fields else None
        if first is not None:
            target = first.query_one("Input")
        if target is not None:
            target.focus()
        self._changed()

    @on(Changed)
    def _changed(self) -> None:
        """Something was typed or chosen: what was previewed no longer holds."""
        self._previewed = None
        args = self._arguments()
        chosen = {field.param.name: field.value() for field in self._fields
                  if isinstance(field, ChoiceField) and field.options}  # fmt: skip
        self.query_one("#now", Words).say(facts(self.verb, chosen, self._status), "text")
        if self._timer is not None:
            self._timer.stop()
        if args is not None and not self._still_empty(args):
            self._timer = self.set_timer(PREVIEW_AFTER_S, self._start_preview)

    def _still_empty(self, args: dict[str, Any]) -> bool:
        """Nothing but what the dialog chose itself stands in the fields, though there is something
        to type: a refusal of that would only be noise."""
        theirs = [field for field in self._fields if not isinstance(field, ChoiceField)]
        to_type = any(isinstance(field, TextField | SettingsField) for field in theirs)
        if not to_type or any(field.param.name in args for field in theirs):
            return False
        self._say("", "muted")
        return True

    @on(Submitted)
    def _submitted(self) -> None:
        self.action_confirm()

    @on(Left)
    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_confirm(self) -> None:
        """Send what was previewed; without a preview of exactly this, ask for it first."""
        if self._confirming:
            return
        if self._timer is not None:
            self._timer.stop()
        args = self._arguments()
        if args is None:
            return
        if self._previewed is None or self._previewed[0] != args:
            self._start_preview(then_send=True)
        elif self._previewed[1].allowed and self._was_read():
            self._send(args)

    def _was_read(self) -> bool:
        """Whether a preview that throws work away stood there long enough to be read: Enter twice
        in a row, or one pressed just as it appeared, is no answer to it."""
        assert self._previewed is not None
        shown_s = self.eagle.clock.monotonic() - self._previewed_at
        return not self._previewed[1].drops_work or shown_s >= READ_S

    def _arguments(self) -> dict[str, Any] | None:
        """The fields' values; None, with the reason shown, when one cannot be meant."""
        try:
            return field_values(self._fields)
        except FieldError as error:
            self._say(str(error), "warn")
            return None

    def _start_preview(self, then_send: bool = False) -> None:
        args = self._arguments()
        if args is not None:
            begin(self, self._preview, args, then_send, group="preview", exclusive=True)

    async def _preview(self, args: dict[str, Any], then_send: bool) -> None:
        try:
            preview = await self.eagle.client.preview(self.verb, args)
        except ClientError as error:
            self._say(str(error), "error")
            return
        if args != self._arguments():
            return
        self._previewed = (args, preview)
        self._previewed_at = self.eagle.clock.monotonic()
        if not preview.allowed:
            self._say(f"Refused: {preview.sentence}", "error")
        elif preview.drops_work:
            self._say(f"{preview.sentence}. This throws work away.", "warn")
        else:
            self._say(preview.sentence, "accent")
            if then_send:
                self._send(args)

    def _send(self, args: dict[str, Any]) -> None:
        self._confirming = True
        begin(self, self._command, args, group="command")

    async def _command(self, args: dict[str, Any]) -> None:
        try:
            answer = await self.eagle.send(self.verb, args)
        except ClientError as error:
            self._say(str(error), "error")
        else:
            if answer.state != "refused":
                self.dismiss(None)
                return
            self._say(f"Refused: {answer.reason or 'no reason was given'}", "error")
        finally:
            self._confirming = False

    def _say(self, text: str, style_name: str) -> None:
        # An answer may come while the dialog is being taken down.
        if not self.is_mounted or not self.is_attached:
            return
        for words in self.query("#preview").results(Words):
            words.say(text, style_name)

    def _field(self, param: Param, dataset: str | None) -> Field:
        """The field that fits a parameter, filled with what is most likely meant."""
        status = self._status
        if param.type == "dataset":
            names = [row.name for row in status.datasets] if status else []
            if param.together and status and status.total:
                names.append(status.total.name)
            return ChoiceField(param, names, dataset)
        if param.type == "phase":
            names = [phase.name for phase in status.phases] if status else []
            return ChoiceField(param, names, default_phase(self._action.id, status))
        if param.type == "choice":
            return ChoiceField(param, param.choices, param.default)
        if param.type == "bool":
            return SwitchField(param)
        return TextField(param, dataset or "" if param.type == "datasets" else "")

    def _keys(self) -> str:
        move = "Tab next field   " if len(self._fields) > 1 else ""
        typed = any(field.param.type in ("datasets", "text", "settings") for field in self._fields)
        return f"{move}Enter{'' if typed else ' or y'} do it   Esc{'' if typed else ' or q'} leave"
