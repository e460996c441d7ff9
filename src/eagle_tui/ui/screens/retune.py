"""The dialog of a retune: all settings of a server, each explained, and refused as one types."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult

from eagle_tui.actions import Action, Param
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import Status
from eagle_tui.ui.screens.dialog import ActionDialog, Field, Words
from eagle_tui.ui.widgets.fields import Changed
from eagle_tui.ui.widgets.settings import Explained, ServerField, SettingsField
from eagle_tui.ui.work import begin

SHORT = 30
"""Rows below which the settings scroll, so that what is said of them stays in sight."""
AGAIN_S = 1.0
"""Until it is asked again for what was still being looked up."""


class RetuneDialog(ActionDialog):
    """As every dialog; its fields are what the supervisor says of the server."""

    def __init__(self, action: Action, status: Status | None, chosen: str | None) -> None:
        self._told = ""
        super().__init__(action, status, chosen)

    def on_mount(self) -> None:
        self.set_class(len(self._server_field().names) < 2, "-one-server")
        self._ask()

    def on_resize(self, event: events.Resize) -> None:
        short = event.size.height < SHORT
        self.set_class(short, "-short")
        self.query_one("#about", Words).say("" if short else self._action.help, "muted")

    def fields(self) -> ComposeResult:
        yield from super().fields()
        yield Words("explained")

    def _field(self, param: Param, chosen: str | None) -> Field:
        if param.type == "server":
            names = [s.name for s in self._status.servers] if self._status else []
            return ServerField(param, names, chosen)
        if param.type == "settings":
            return SettingsField(param)
        return super()._field(param, chosen)

    def _server_field(self) -> ServerField:
        (field,) = (field for field in self._fields if isinstance(field, ServerField))
        return field

    @on(Changed)
    def _server_changed(self) -> None:
        if self._told and self._server_field().shown != self._told:
            self._ask()

    @on(Explained)
    def _explain(self, message: Explained) -> None:
        self.query_one("#explained", Words).say(message.text, "muted")

    def _ask(self) -> None:
        begin(self, self._load, group="tuning", exclusive=True)

    async def _load(self) -> None:
        """What is in force on the server that is chosen; again, while it is not all known yet."""
        name = self._told = self._server_field().shown
        try:
            tuning = await self.eagle.client.tuning(name)
        except ClientError as error:
            self._say(str(error), "error")
            return
        (field,) = (field for field in self._fields if isinstance(field, SettingsField))
        await field.show(tuning)
        if tuning.note:
            self.query_one("#now", Words).say(f"{name}: {tuning.note.rstrip('.')}.", "muted")
            self.set_timer(AGAIN_S, self._ask)
        else:
            self._changed()
