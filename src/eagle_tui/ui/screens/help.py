"""The help screen: all keys, made from the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from eagle_tui.actions import ACTIONS, Action
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.keys import LOCAL_KEYS, key_text
from eagle_tui.ui.screens.page import PageScreen
from eagle_tui.ui.wrap import wrap

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

_KEY_WIDTH, _LABEL_WIDTH, _COMMAND_WIDTH = 12, 14, 24
_COMMAND_FROM = 100
"""Width from which the command line's form has room, too."""


class HelpScreen(PageScreen):
    """Keys with what they do, and the command that does the same."""

    TITLE_TEXT = "Keys"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "leave_page", show=False, id="help")
    ]

    def __init__(self, screen_name: str) -> None:
        """`screen_name` is the screen from which help was asked for: its keys come first."""
        super().__init__()
        self._screen_name = screen_name

    def lines(self, width: int) -> Sequence[Line]:
        app = cast("EagleApp", self.app)
        look = app.palette
        out: list[Line] = [()]
        for title, actions in help_groups(self._screen_name, app.mode):
            out.append(Pen().add(f"  {title}", look.accent).segments)
            for action in actions:
                command = f"eagle-tui {action.verb}" if action.verb else ""
                key = key_text(app.keymap.of(action).key or "")
                out += self._entry(key, action.label, command, action.help, width)
            out.append(())
        out.append(Pen().add("  Moving around", look.accent).segments)
        for key, text in LOCAL_KEYS:
            out += self._entry(key, "", "", text, width)
        return out

    def _entry(self, key: str, label: str, command: str, text: str, width: int) -> list[Line]:
        look = cast("EagleApp", self.app).palette
        columns = [(key, _KEY_WIDTH, look.key)]
        if label:
            columns.append((label, _LABEL_WIDTH, look.strong))
        if label and width >= _COMMAND_FROM:
            columns.append((command, _COMMAND_WIDTH, look.muted))
        room = max(width - sum(cells for _, cells, _ in columns) - 4, 20)
        lines: list[Line] = []
        for index, part in enumerate(wrap(text, room)):
            pen = Pen().add("  ")
            for word, cells, style in columns:
                pen.cell(word if index == 0 else "", cells, style)
            lines.append(pen.add(part, look.text).segments)
        return lines


def help_groups(screen: str, mode: str = "") -> list[tuple[str, list[Action]]]:
    """Every action once, under headings: orders and keys that act on that screen, the screens, and
    what acts elsewhere. In a replay its own keys come first."""
    usual = [action for action in ACTIONS if not action.modes]
    here = [action for action in usual if action.acts_on(screen) and not action.opens]
    groups = [
        ("Orders to the run", [action for action in here if action.verb]),
        ("On this screen", [action for action in here if not action.verb]),
        ("Screens", [action for action in usual if action.opens]),
        ("On other screens", [action for action in usual if not action.acts_on(screen)]),
    ]
    replay = ("In a replay (eagle-tui replay)", [action for action in ACTIONS if action.modes])
    groups.insert(0 if mode else len(groups), replay)
    return [(title, actions) for title, actions in groups if actions]
