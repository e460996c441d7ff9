"""Runs that are always taken down again, by the processes that they themselves started."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle_tui import proc
from eagle_tui.config import PHASES

sys.path.insert(0, str(Path(__file__).parent))
from harness import Run, make


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Makes runs; what is left of them afterwards is ended."""
    made: list[Run] = []

    def new(*settings: str, rows: int | None = None, name: str = "run") -> Run:
        run = make(tmp_path / name, settings, rows)
        made.append(run)
        return run

    yield new
    for run in made:
        run.down()
        for kind in ("supervisor", "engine", *PHASES):
            for process in run.processes(kind):
                proc.send(process, signal.SIGKILL)
