"""A run directory that is moved away or removed while its supervisor has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.config import parse_config
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.core import GONE_S, SNAPSHOT_S, Supervisor
from eagle_tui.supervisor.store import Store

CONFIG = """
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


@pytest.mark.parametrize("removed", [False, True])
async def test_nothing_is_made_anew_where_it_was(
    tmp_path: Path, removed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "run"
    root.mkdir()
    run, clock = RunDir.at(root), ManualClock(1.0)
    supervisor = Supervisor(run, parse_config(CONFIG), Store(run.state), clock)
    assert not supervisor._round()
    assert (root / "status.json").exists()
    if removed:
        shutil.rmtree(root)
    else:
        root.rename(tmp_path / "moved")
    for _ in range(2):
        clock.advance(GONE_S * 0.4)
        assert not supervisor._round()
    clock.advance(SNAPSHOT_S)
    assert supervisor._round(), "after a while it gives up"
    assert "is gone: everything is stopped" in capsys.readouterr().err
    assert not root.exists()


async def test_a_directory_that_comes_back_is_gone_on_with(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    run, clock = RunDir.at(root), ManualClock(1.0)
    supervisor = Supervisor(run, parse_config(CONFIG), Store(run.state), clock)
    root.rename(tmp_path / "moved")
    assert not supervisor._round()
    (tmp_path / "moved").rename(root)
    clock.advance(GONE_S + SNAPSHOT_S)
    assert not supervisor._round()
    assert (root / "status.json").exists()
