"""The section `[ui]` of run.toml, which the screen reads without all the rest."""

from __future__ import annotations

import tomllib
from pathlib import Path

from eagle_tui.config.section import Section


class UiSection(Section):
    """The screen."""

    theme: str = "eagle-dark"
    """Theme by name: one of ours, or one from the user's theme directory."""
    title: bool = True
    """Set the terminal's title to the run's name and progress; it is put back on leaving."""
    bell: bool = False
    """Ring the terminal's bell when a phase is done or failed, when generation pauses by itself,
    and at an alert of severity error."""


def read_ui(path: Path) -> UiSection:
    """The section as it stands in a run.toml; where it cannot be read, or there is no such file (a
    copied run may lack it), the defaults."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        return UiSection.model_validate(raw.get("ui") or {})
    except (OSError, ValueError, RecursionError):
        return UiSection()
