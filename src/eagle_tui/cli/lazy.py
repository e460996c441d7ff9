"""The commands by name, each loaded when it is asked for: all of them together take longer to load
than most of them take to run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping

import click

from eagle_tui.actions import ACTIONS

PARTS: dict[str, tuple[str, ...]] = {
    "make": ("init", "check", "up", "demo"),
    "screen": ("attach", "replay"),
    "follow": ("status", "watch", "report"),
    "datasets": ("datasets",),
    "samples": ("samples",),
    "logs": ("logs",),
    "events": ("events",),
    "phases": ("phases",),
    "result": ("result",),
    "history": ("history", "marks"),
    "launches": ("launches", "settings"),
    "notify": ("notify",),
    "doctor": ("doctor",),
    "verbs": tuple(action.verb for action in ACTIONS if action.verb),
}
"""The modules of this package that hold commands (`COMMANDS`), and how these are called."""


class Commands(MutableMapping[str, click.Command]):
    """For `click.Group`. A command that is set counts before one of PARTS."""

    def __init__(self) -> None:
        self._where = {name: part for part, names in PARTS.items() for name in names}
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            part = importlib.import_module(f"eagle_tui.cli.{self._where[name]}")
            self._loaded.update({command.name: command for command in part.COMMANDS})
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._where[name], self._loaded[name] = "", command

    def __delitem__(self, name: str) -> None:
        del self._where[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)
