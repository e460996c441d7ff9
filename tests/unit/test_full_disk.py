"""A disk that takes nothing, or gave back something else: it is said in a sentence."""

from __future__ import annotations

import errno
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from eagle_tui.clock import Clock, ManualClock
from eagle_tui.config.presets import preset_text
from eagle_tui.protocol import CommandRequest
from eagle_tui.reach import StartFailed, start_supervisor
from eagle_tui.rundir import desired
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.app import make_app
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.supervisor.store import Store


def _take_no_bytes() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    (tmp_path / "run.toml").write_text(preset_text("demo", "r"))
    return RunDir.at(tmp_path)


async def test_an_order_that_cannot_be_stored_is_told_why() -> None:
    def request(_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    parts = SimpleNamespace(orders=SimpleNamespace(request=request))
    transport = httpx.ASGITransport(app=make_app(cast(Supervisor, parts)))
    async with httpx.AsyncClient(transport=transport, base_url="http://run") as client:
        body = {"id": "1", "verb": "pause", "args": {}, "origin": "test"}
        answer = await client.post("/v1/commands", json=body)
    assert answer.status_code == 500
    assert "database or disk is full" in answer.json()["error"]


@pytest.mark.parametrize(
    ("part", "name", "state"), [("board", "publish", "accepted"), ("store", "accept", "requested")]
)
def test_an_order_that_is_stored_is_carried_out_later_and_not_called_failed(
    tmp_path: Path,
    supervise: Callable[[Path, Clock], Supervisor],
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    name: str,
    state: str,
) -> None:
    supervisor = supervise(tmp_path, ManualClock(1.0))
    assert not supervisor._round()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(getattr(supervisor, part), name, full)
        order = CommandRequest(id="1", verb="skip", args={"dataset": "a"})
        assert supervisor.orders.request(order).state == state
        assert not supervisor._round()
    assert not supervisor._round()
    assert supervisor.orders.request(order).state == "in_effect"
    written = desired.read(RunDir.at(tmp_path).desired, supervisor.board.config)
    assert written.datasets["a"].skip


def test_a_supervisor_that_can_write_nothing_ends_with_one_sentence(run: RunDir) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eagle_tui.supervisor", str(run.root), "--up"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_take_no_bytes,
        timeout=30,
    )
    assert done.returncode == 1
    assert "cannot be kept" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_damaged_state_file_is_told_in_one_sentence(run: RunDir) -> None:
    store = Store(run.state)
    store.event(1.0, "info", "test", "x")
    store.close()
    with sqlite3.connect(run.state) as db:
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()[0]
        size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    with run.state.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    done = subprocess.run(
        [sys.executable, "-m", "eagle_tui.supervisor", str(run.root), "--up"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "the state file is damaged" in done.stderr and "move state.sqlite" in done.stderr
    assert "Traceback" not in done.stderr and not run.socket.exists()


def test_a_worker_that_can_write_nothing_ends_with_one_sentence(run: RunDir) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eagle_tui.pipeline.merge", str(run.root)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_take_no_bytes,
        timeout=30,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "nothing can be written there" in done.stderr


def test_one_that_could_not_even_write_its_log_is_explained(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")  # ends with 1 and says nothing
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=512))
    with pytest.raises(StartFailed, match=r"only 512 bytes of disk are free; make room") as caught:
        start_supervisor(run)
    assert caught.value.code == 1
