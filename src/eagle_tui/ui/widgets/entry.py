"""The text field that all dialogs and questions use."""

from __future__ import annotations

from textual.widgets import Input


class Entry(Input):
    """One line of text, without a frame. Never blinks: that would repaint for days."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True, select_on_focus=False)
        self.cursor_blink = False
