"""The field of a retune: every setting of a server with what is in force, to type over."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from eagle_tui.actions import Param
from eagle_tui.protocol import Setting, Tuning
from eagle_tui.ui.widgets.fields import (
    Changed,
    ChoiceField,
    FieldError,
    FieldLabel,
    Submitted,
    TextInput,
)

SETTING_WIDTH = 27
ALL = "all"
MORE = Setting(key="", help="any other flag of the server, as NAME=VALUE NAME=VALUE")
RETURN = "`default` goes back to run.toml, `none` leaves the flag out."


class Explained(Message):
    """Another setting has the focus: what it does."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class ServerField(ChoiceField):
    """One server, or all of them; nothing to choose when there is but one."""

    def __init__(self, param: Param, names: Iterable[str], chosen: str | None) -> None:
        found = list(names)
        super().__init__(param, [ALL, *found] if len(found) > 1 else found, chosen)
        self.names = found

    def value(self) -> str | None:
        """The server's name; None for all."""
        chosen = super().value()
        return None if chosen == ALL else chosen

    @property
    def shown(self) -> str:
        """The server whose settings are shown."""
        return self.value() or (self.names[0] if self.names else "")


class SettingRow(Horizontal):
    """One setting: its name, what is in force, and what is typed over it."""

    def __init__(self, setting: Setting, typed: str = "") -> None:
        super().__init__(classes="setting")
        self.setting = setting
        self._label = FieldLabel(setting.key or "other")
        self._text = TextInput(True, typed, hint(setting))

    def compose(self) -> ComposeResult:
        self._label.styles.width = SETTING_WIDTH
        yield self._label
        yield self._text

    def tell(self, setting: Setting) -> None:
        """The same setting, as it is now."""
        self.setting = setting
        self._text.placeholder = hint(setting)

    def typed(self) -> str:
        """What was typed over it."""
        return self._text.value.strip()

    def on_descendant_focus(self) -> None:
        self._label.lit(True)
        self.post_message(Explained(explanation(self.setting)))

    def on_descendant_blur(self) -> None:
        self._label.lit(False)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(Changed())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(Submitted())


class SettingsField(Vertical):
    """All settings of one server, as far as the supervisor told them."""

    def __init__(self, param: Param) -> None:
        super().__init__(classes="settings")
        self.param = param
        self._rows = [SettingRow(MORE)]
        self._told = False

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield from self._rows

    async def show(self, tuning: Tuning) -> None:
        """Show what is in force. What was typed stays, and so does the focus."""
        settings = (*tuning.settings, MORE)
        if [row.setting.key for row in self._rows] == [setting.key for setting in settings]:
            for row, setting in zip(self._rows, settings, strict=True):
                row.tell(setting)
            return
        typed = {row.setting.key: row.typed() for row in self._rows}
        focus = next((row.setting.key for row in self._rows if row.has_focus_within), None)
        focus = focus if self._told else settings[0].key
        self._told = True
        scroll = self.query_one(VerticalScroll)
        await scroll.remove_children()
        self._rows = [SettingRow(setting, typed.get(setting.key, "")) for setting in settings]
        await scroll.mount(*self._rows)
        for row in self._rows:
            if row.setting.key == focus:
                row.query_one(Input).focus()

    def value(self) -> dict[str, str] | None:
        """What was typed, by setting; None for nothing. Raises FieldError."""
        found: dict[str, str] = {}
        for row in self._rows:
            text = row.typed()
            if not text:
                continue
            pairs = [(row.setting.key, "=", text)]
            if not row.setting.key:
                pairs = [word.partition("=") for word in text.split()]
            for key, equals, value in pairs:
                if not (key and equals and value):
                    raise FieldError(f"Write other flags as NAME=VALUE; found {text}.")
                if key in found:
                    raise FieldError(f"{key} is given twice.")
                found[key] = value
        return found or None


def hint(setting: Setting) -> str:
    """What stands in a field in which nothing was typed: what is in force, and from where."""
    if not setting.key:
        return "NAME=VALUE …"
    if not setting.known:
        return "not known to the installed server"
    if setting.value is None:
        return "the server's own default"
    origin = {"default": "default", "run.toml": "run.toml", "retune": "retuned"}[setting.source]
    return f"{setting.value}  ({origin})"


def explanation(setting: Setting) -> str:
    """What a setting does, what it can be, and how it is taken back."""
    parts = [setting.help[:1].upper() + setting.help[1:].rstrip(". ") + "."]
    if setting.choices:
        parts.append(f"One of {', '.join(setting.choices)}.")
    elif setting.kind == "bool":
        parts.append("true or false.")
    if setting.source != "default":
        parts.append(RETURN)
    return " ".join(parts)
