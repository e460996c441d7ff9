"""A run directory that is moved away or removed while its supervisor has it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.clock import Clock, ManualClock
from eagle_tui.supervisor.core import GONE_S, SNAPSHOT_S, Supervisor

Supervise = Callable[[Path, Clock], Supervisor]


@pytest.mark.parametrize("removed", [False, True])
async def test_nothing_is_made_anew_where_it_was(
    tmp_path: Path, supervise: Supervise, removed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "run"
    root.mkdir()
    clock = ManualClock(1.0)
    supervisor = supervise(root, clock)
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


async def test_a_directory_that_comes_back_is_gone_on_with(
    tmp_path: Path, supervise: Supervise
) -> None:
    root = tmp_path / "run"
    root.mkdir()
    clock = ManualClock(1.0)
    supervisor = supervise(root, clock)
    root.rename(tmp_path / "moved")
    assert not supervisor._round()
    (tmp_path / "moved").rename(root)
    clock.advance(GONE_S + SNAPSHOT_S)
    assert not supervisor._round()
    assert (root / "status.json").exists()
