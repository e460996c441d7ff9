"""Commands are loaded when asked for, and none is forgotten."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import eagle_tui.cli
from eagle_tui.cli.lazy import PARTS
from eagle_tui.cli.main import cli


def test_every_command_of_every_part_is_known_by_name() -> None:
    holding = {}
    for found in pkgutil.iter_modules(eagle_tui.cli.__path__):
        part = importlib.import_module(f"eagle_tui.cli.{found.name}")
        if hasattr(part, "COMMANDS"):
            holding[found.name] = tuple(command.name for command in part.COMMANDS)
    assert holding == PARTS
    for names in holding.values():
        for name in names:
            assert cli.commands[name].name == name


def test_opening_the_screen_loads_no_more_than_it_needs() -> None:
    code = (
        "import sys; from eagle_tui.cli.main import cli; cli.commands['attach'];"
        "import eagle_tui.ui.app; print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needless = ("httpx", "tomlkit", "eagle_tui.config.model", "eagle_tui.supervisor", "numpy")
    assert [name for name in needless if f"'{name}'" in done.stdout] == []
