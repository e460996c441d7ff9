"""The fields of a dialog, one per parameter of an action: a choice, a switch, a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from eagle_tui import fmt
from eagle_tui.actions import Param
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.widgets.entry import Entry

LABEL_WIDTH = 13


class Changed(Message):
    """A field's value changed: the preview is out of date."""


class Submitted(Message):
    """Enter or y was pressed in a text field."""


class Left(Message):
    """q was pressed in a text field."""


class FieldError(ValueError):
    """What was typed cannot be meant; `str()` says what to write instead."""


def label(param: Param) -> str:
    """What stands before a parameter's field."""
    return param.name.replace("_", " ")


class ChoiceField(Canvas, can_focus=True):
    """One of several words: ← and → change it. All are shown where they fit, else one with its
    place among them."""

    def __init__(self, param: Param, options: Sequence[str], chosen: str | None) -> None:
        super().__init__(classes="field")
        self.param = param
        self.options = list(options)
        self.index = self.options.index(chosen) if chosen in self.options else 0

    def value(self) -> str | None:
        """The chosen word; None when there is nothing to choose from."""
        if not self.options:
            if self.param.required:
                raise FieldError(f"There is no {label(self.param)} to choose.")
            return None
        return self.options[self.index]

    def draw(self, width: int, height: int) -> Iterable[Line]:
        look = self.palette
        pen = Pen().cell(label(self.param), LABEL_WIDTH, look.key if self.has_focus else look.muted)
        if not self.options:
            yield pen.add("none", look.muted).segments
            return
        inline = sum(len(option) + 3 for option in self.options) + LABEL_WIDTH
        if inline <= width:
            for index, option in enumerate(self.options):
                chosen = index == self.index
                style = look.strong + look.cursor if chosen else look.muted
                pen.add(f" {option} ", style).add(" ")
        else:
            pen.add(f" {self.options[self.index]} ", look.strong + look.cursor)
            pen.add(f"  {self.index + 1} of {len(self.options)}, ← → change", look.muted)
        yield pen.segments

    def on_key(self, event: events.Key) -> None:
        step = {"left": -1, "h": -1, "right": 1, "l": 1, "space": 1}.get(event.key)
        if step is None or not self.options:
            return
        event.stop()
        self.index = (self.index + step) % len(self.options)
        self.redraw()
        self.post_message(Changed())

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.redraw()


class SwitchField(Canvas, can_focus=True):
    """Yes or no: space changes it."""

    def __init__(self, param: Param, on: bool = False) -> None:
        super().__init__(classes="field")
        self.param = param
        self.on = on

    def value(self) -> bool | None:
        """True, or None for the default."""
        return True if self.on else None

    def draw(self, width: int, height: int) -> Iterable[Line]:
        look = self.palette
        pen = Pen().cell(label(self.param), LABEL_WIDTH, look.key if self.has_focus else look.muted)
        pen.add(" [x] " if self.on else " [ ] ", look.strong)
        yield pen.add(self.param.help, look.muted).segments

    def on_key(self, event: events.Key) -> None:
        if event.key in ("space", "left", "right", "x"):
            event.stop()
            self.on = not self.on
            self.redraw()
            self.post_message(Changed())

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.redraw()


class TextInput(Entry):
    """A text field that leaves y and q to the dialog where they cannot be part of the value."""

    def __init__(self, free_text: bool, value: str, placeholder: str) -> None:
        super().__init__(value, placeholder=placeholder)
        self._free_text = free_text

    async def on_key(self, event: events.Key) -> None:
        """Runs before the base class's handler, which would insert the letter."""
        if not self._free_text and event.key in ("y", "q"):
            event.stop()
            event.prevent_default()
            self.post_message(Submitted() if event.key == "y" else Left())


class TextField(Horizontal):
    """A count, a number or names, typed."""

    def __init__(self, param: Param, value: str = "", hint: str = "") -> None:
        super().__init__(classes="field")
        self.param = param
        self._text = TextInput(param.type in ("datasets", "text"), value, hint or param.help)

    def compose(self) -> ComposeResult:
        yield FieldLabel(label(self.param))
        yield self._text

    def on_descendant_focus(self) -> None:
        self.query_one(FieldLabel).lit(True)

    def on_descendant_blur(self) -> None:
        self.query_one(FieldLabel).lit(False)

    def value(self) -> int | str | list[str] | None:
        """What was typed, as its parameter's type; None for nothing. Raises FieldError."""
        text = self._text.value.strip()
        if not text:
            if self.param.required:
                raise FieldError(f"Give {label(self.param)}: {self.param.help}")
            return None
        if self.param.type == "text":
            return text
        if self.param.type == "datasets":
            return [name for name in text.replace(",", " ").split() if name]
        try:
            return fmt.parse_count(text)
        except ValueError as error:
            raise FieldError(f"{label(self.param)}: {error}.") from error

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(Changed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(Submitted())


class FieldLabel(Canvas):
    """A field's name; bright while the field beside it has the focus."""

    DEFAULT_CSS = f"FieldLabel {{ width: {LABEL_WIDTH}; }}"

    def __init__(self, name: str) -> None:
        super().__init__()
        self._label = name
        self._lit = False

    def name_it(self, name: str) -> None:
        """Show another name."""
        self._label = name
        self.redraw()

    def lit(self, on: bool) -> None:
        self._lit = on
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        style = self.palette.key if self._lit else self.palette.muted
        yield Pen().cell(self._label, width, style).segments


class Field(Protocol):
    """A field of a dialog."""

    param: Param

    def value(self) -> Any:
        """What stands in it; None for nothing. Raises FieldError."""
        ...


def field_values(fields: Iterable[Field]) -> dict[str, Any]:
    """The arguments of a command: every field that holds something. Raises FieldError."""
    values = {field.param.name: field.value() for field in fields}
    return {name: value for name, value in values.items() if value is not None}
