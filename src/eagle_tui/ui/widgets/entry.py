"""A text field that obeys keys in the order in which they were pressed.

Textual inserts a printable key as soon as the field sees it, but an editing key is looked up as a
binding only after its event has climbed from the field to the app. Keys that arrive in one read
(fast typing over SSH, tmux) are therefore obeyed out of order: Backspace and then 5 in "12" became
5 and then Backspace, and both seemed lost.
"""

from __future__ import annotations

from textual import events
from textual.binding import Binding
from textual.widgets import Input

_EDITS = {binding.key: binding.action for binding in Binding.make_bindings(Input.BINDINGS)}


class Entry(Input):
    """`Input` whose editing keys act at once. Never blinks: that would repaint for days."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True, select_on_focus=False)
        self.cursor_blink = False

    async def on_key(self, event: events.Key) -> None:
        """Runs before the base class's handler, and before any binding of a parent."""
        action = _EDITS.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            await self.run_action(action)
