"""`run.toml`: typed, strict, with errors that say what, where and what to do.

The names below are loaded when they are asked for: the models of all sections take a moment, and
whoever wants to know only why something failed does without them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagle_tui.config.errors import ConfigError
    from eagle_tui.config.load import load_config, parse_config
    from eagle_tui.config.model import PHASES, RunConfig

__all__ = ["PHASES", "ConfigError", "RunConfig", "load_config", "parse_config"]

_WHERE = {
    "PHASES": "model",
    "ConfigError": "errors",
    "RunConfig": "model",
    "load_config": "load",
    "parse_config": "load",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
