"""The dialog that asks before a command is taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eagle_tui.actions import BY_ID
from eagle_tui.protocol import CommandStatus, Status
from eagle_tui.ui.journal import command_text
from eagle_tui.ui.screens.dialog import ActionDialog


class UndoDialog(ActionDialog):
    """Says what taking back this command does, and does it."""

    def __init__(self, command: CommandStatus, status: Status | None) -> None:
        text = f"Take back: {command_text(command.verb, command.args)}"
        super().__init__(replace(BY_ID["undo"], help=text, params=()), status, None)
        self._id = command.id

    def _arguments(self) -> dict[str, Any]:
        return {"command": self._id}
