"""Parts of a run directory that cannot be read: told, tried again, and nothing dies of them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.clock import Clock, ManualClock
from eagle_tui.supervisor.board import MANIFEST_LOOK_S
from eagle_tui.supervisor.core import GONE_S, Supervisor

Supervise = Callable[[Path, Clock], Supervisor]


def test_a_manifest_that_cannot_be_read_makes_its_phase_stale(
    tmp_path: Path, supervise: Supervise
) -> None:
    (tmp_path / "bench").symlink_to("bench")  # ELOOP, whoever asks
    clock = ManualClock(1.0)
    supervisor = supervise(tmp_path, clock)
    assert not supervisor._round()
    bench = supervisor.board.decisions["bench"]
    assert bench.state == "stale" and f"{tmp_path}/bench/manifest.json" in bench.reason
    (tmp_path / "bench").unlink()
    supervisor.board.set_intent("down")  # its worker is not what is tried here
    clock.advance(MANIFEST_LOOK_S)
    supervisor._round()
    assert supervisor.board.decisions["bench"].state == "pending"


def test_a_run_whose_path_leads_nowhere_for_now_is_not_taken_for_gone(
    tmp_path: Path, supervise: Supervise
) -> None:
    parent = tmp_path / "parent"
    (parent / "run").mkdir(parents=True)
    clock = ManualClock(1.0)
    supervisor = supervise(parent / "run", clock)
    parent.rename(tmp_path / "moved")
    parent.touch()  # ENOTDIR: what is behind it cannot be known
    for _ in range(3):
        clock.advance(GONE_S)
        assert not supervisor._round()
    parent.unlink()
    (tmp_path / "moved").rename(parent)
    assert not supervisor._round()
    assert supervisor._maker.trouble is None


def test_a_status_that_cannot_be_made_leaves_the_one_before(
    tmp_path: Path, supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = supervise(tmp_path, ManualClock(1.0))
    before = supervisor.status

    def ill() -> None:
        raise OSError(errno.EIO, "ill", "somewhere")

    monkeypatch.setattr(supervisor, "_make_status", ill)
    assert not supervisor._round()
    assert supervisor.status is before
    told = [event.text for event in supervisor.store.events(0, 10)]
    assert any("the disk answers with an error" in text for text in told)
