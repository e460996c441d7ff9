"""One line that asks for a text, at the bottom of a screen: a search, a place to go to."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from eagle_tui.ui.widgets.entry import Entry
from eagle_tui.ui.widgets.fields import FieldLabel


class AskLine(Horizontal):
    """Hidden until `ask`; Enter answers, Escape takes it back."""

    DEFAULT_CSS = """
    AskLine { height: 1; display: none; background: $panel; }
    AskLine Entry { width: 1fr; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    class Answered(Message):
        """Enter was pressed."""

        def __init__(self, what: str, text: str) -> None:
            self.what, self.text = what, text
            super().__init__()

    class Left(Message):
        """It was closed without an answer."""

    def __init__(self, id: str = "ask") -> None:
        super().__init__(id=id)
        self._what = ""
        self._label = FieldLabel("")
        self._entry = Entry()

    def compose(self) -> ComposeResult:
        yield self._label
        yield self._entry

    @property
    def asking(self) -> bool:
        """Whether it is open."""
        return bool(self.display)

    def ask(self, what: str, value: str = "", hint: str = "") -> None:
        """Open, with what is asked for (given back with the answer) and what stands there."""
        self._what = what
        self._label.name_it(f" {what}")
        self._entry.placeholder = hint
        self._entry.value = value
        self._entry.cursor_position = len(value)
        self.display = True
        self._entry.focus()

    def action_leave(self) -> None:
        """Close without an answer."""
        self._close()
        self.post_message(self.Left())

    def _close(self) -> None:
        self.display = False
        self.screen.set_focus(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close()
        self.post_message(self.Answered(self._what, event.value.strip()))
