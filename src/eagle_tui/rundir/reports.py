"""Documents about the run, written into it: `RUN/reports/`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir


def write_plan(run: RunDir, text: str, at: float) -> Path:
    """Write a plan document of Unix time `at`; gives where. OSError when it cannot be written."""
    name = datetime.fromtimestamp(at).strftime("plan-%Y%m%d-%H%M%S.md")
    path = run.reports / name
    atomic.write_text(path, text)
    return path
