"""The smallest run, and a supervisor of it in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.clock import Clock
from eagle_tui.config import parse_config
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.supervisor.store import Store

SMALLEST = """
[run]
phases = ["bench"]
[target]
model = "builtin:tiny"
[[server]]
url = "http://127.0.0.1:9"
[[dataset]]
name = "a"
source = "a.jsonl"
"""


@pytest.fixture
def smallest() -> RunConfig:
    """One dataset, one server that is not there, and a phase that waits for it."""
    return parse_config(SMALLEST)


@pytest.fixture
def supervise(smallest: RunConfig) -> Callable[[Path, Clock], Supervisor]:
    """A supervisor of the smallest run in that directory; it does nothing by itself."""

    def begin(root: Path, clock: Clock) -> Supervisor:
        run = RunDir.at(root)
        return Supervisor(run, smallest, Store(run.state), clock)

    return begin
