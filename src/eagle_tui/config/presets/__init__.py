"""Presets of `eagle-tui init`."""

from __future__ import annotations

import re
from importlib import resources

PRESETS = ("demo", "kimi-k2.5-8gpu")


def preset_text(preset: str, directory_name: str) -> str:
    """The run.toml of a preset, with the run named after its directory. KeyError when unknown."""
    if preset not in PRESETS:
        raise KeyError(preset)
    text = resources.files(__name__).joinpath(f"{preset}.toml").read_text(encoding="utf-8")
    name = re.sub(r"[^a-z0-9._-]+", "-", directory_name.lower()).strip("-._")[:63] or preset
    return text.replace('name = "RUN"', f'name = "{name}"', 1)
