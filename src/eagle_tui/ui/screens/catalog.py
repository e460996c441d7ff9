"""Which class draws which screen. The registry's actions with `opens` name these screens.

Each is loaded when it is opened for the first time: together they take longer to load than the
overview takes to be drawn.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from eagle_tui.ui.screens.base import RunScreen

_CLASSES = {
    "overview": "OverviewScreen",
    "datasets": "DatasetsScreen",
    "samples": "SamplesScreen",
    "server": "ServerScreen",
    "gpus": "GpusScreen",
    "logs": "LogsScreen",
    "events": "EventsScreen",
    "phases": "PhasesScreen",
    "result": "ResultScreen",
}
"""The module of this package of that name holds that class."""


def screen_class(name: str) -> type[RunScreen]:
    """The class of a screen by its name."""
    module = importlib.import_module(f"eagle_tui.ui.screens.{name}")
    found: type[RunScreen] = getattr(module, _CLASSES[name])
    return found


def _make(name: str) -> RunScreen:
    return screen_class(name)()


SCREENS: dict[str, Callable[[], RunScreen]] = {name: partial(_make, name) for name in _CLASSES}
"""By name, in the order of their keys. The first one lies at the bottom of the stack."""
