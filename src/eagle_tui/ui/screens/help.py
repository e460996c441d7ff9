"""The help screen: all keys, made from the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from eagle_tui.actions import ACTIONS
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.keys import LOCAL_KEYS, key_text
from eagle_tui.ui.screens.page import PageScreen
from eagle_tui.ui.wrap import wrap

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

_KEY_WIDTH, _LABEL_WIDTH = 12, 14


class HelpScreen(PageScreen):
    """Keys with what they do, and the command that does the same."""

    TITLE_TEXT = "Keys"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "leave_page", show=False)]

    def lines(self, width: int) -> Sequence[Line]:
        look = cast("EagleApp", self.app).palette
        out: list[Line] = [()]
        groups = (
            ("Orders to the run", [action for action in ACTIONS if action.verb]),
            ("On this screen", [action for action in ACTIONS if not action.verb]),
        )
        for title, actions in groups:
            out.append(Pen().add(f"  {title}", look.accent).segments)
            for action in actions:
                text = action.help
                if action.verb:
                    text += f" Command: eagle-tui {action.verb}"
                out += self._entry(key_text(action.key or ""), action.label, text, width)
            out.append(())
        out.append(Pen().add("  Moving around", look.accent).segments)
        for key, text in LOCAL_KEYS:
            out += self._entry(key, "", text, width)
        return out

    def _entry(self, key: str, label: str, text: str, width: int) -> list[Line]:
        look = cast("EagleApp", self.app).palette
        label_width = _LABEL_WIDTH if label else 0
        indent = 2 + _KEY_WIDTH + label_width
        lines: list[Line] = []
        for index, part in enumerate(wrap(text, max(width - indent - 2, 20))):
            pen = Pen().add("  ")
            pen.cell(key if index == 0 else "", _KEY_WIDTH, look.key)
            pen.cell(label if index == 0 else "", label_width, look.strong)
            lines.append(pen.add(part, look.text).segments)
        return lines
