"""The text field that all dialogs and questions use."""

from __future__ import annotations

from textual.widgets import Input

from eagle_tui.ui.glyphs import ascii_text
from eagle_tui.ui.terminal_app import TerminalApp


class Entry(Input):
    """One line of text, without a frame. Never blinks: that would repaint for days."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:
        super().__init__(value, placeholder=placeholder, id=id, compact=True, select_on_focus=False)
        self.cursor_blink = False

    def on_mount(self) -> None:
        app = self.app
        if isinstance(app, TerminalApp) and app.glyphs.mode == "ascii":
            self.placeholder = ascii_text(str(self.placeholder))
