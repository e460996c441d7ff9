"""The command palette: Textual's, with our own hint, and fit for any terminal."""

from __future__ import annotations

import contextlib

from textual.command import CommandPalette


class ActionPalette(CommandPalette):
    """Lists the actions of the registry, and the themes."""

    def __init__(self) -> None:
        super().__init__(placeholder="An action, or a theme")

    def _action_command_list(self, action: str) -> None:
        # Textual 8.2's list looks for the lines of its options, and has none where its terminal is
        # a few cells wide, or before it has drawn what was just found.
        with contextlib.suppress(KeyError, IndexError):
            super()._action_command_list(action)
