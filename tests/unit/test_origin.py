"""A run that is copied while it goes on: the copy leaves the original's processes alone."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle_tui import proc
from eagle_tui.clock import SystemClock
from eagle_tui.config import parse_config
from eagle_tui.pipeline.benchmark.serving import Server
from eagle_tui.pipeline.worker import Worker
from eagle_tui.rundir import atomic
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.identity import identity
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.launch import Handle
from eagle_tui.supervisor.origin import disown
from eagle_tui.supervisor.store import Store

CONFIG = """
[target]
model = "builtin:tiny"
[[server]]
engine = "embedded"
[[dataset]]
name = "a"
source = "a.jsonl"
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Handle]:
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    handle = launch.spawn(argv, token="t", log=tmp_path / "log", cwd=tmp_path, env={})
    yield handle
    handle.kill_all()


def running(root: Path, handle: Handle) -> Path:
    """A run directory whose state file says that the process is the worker of generate."""
    root.mkdir()
    store = Store(RunDir.at(root).state)
    assert disown(store, root, 1.0) == ""
    store.begin("phase", "generate", handle.token, 1.0)
    store.launched(handle.token, handle.process)
    store.close()
    return root


def test_a_copy_does_not_own_what_runs(tmp_path: Path, sleeper: Handle) -> None:
    original = running(tmp_path / "run", sleeper)
    copy = Path(shutil.copytree(original, tmp_path / "copy"))
    store = Store(RunDir.at(copy).state)
    assert "left alone" in disown(store, copy, 2.0) and store.open_attempts("phase") == []
    (attempt,) = store.attempts("phase", "generate")
    assert (attempt.outcome, attempt.ended_at) == ("stopped", 2.0)
    assert "copied" in attempt.reason
    assert disown(store, copy, 3.0) == ""
    assert proc.alive(sleeper.process)


def test_a_file_system_that_was_mounted_anew_makes_no_copy(tmp_path: Path, sleeper: Handle) -> None:
    root = running(tmp_path / "run", sleeper)
    store = Store(RunDir.at(root).state)
    store.begin("server", "engine", "never launched", 1.0, "http://127.0.0.1:1")
    inode = root.stat().st_ino
    store.put("root", [1, inode])
    assert "what runs there (generate) is left alone" in disown(store, root, 2.0)
    assert [attempt.name for attempt in store.open_attempts("server")] == ["engine"]
    store.begin("phase", "generate", "later", 3.0)
    store.launched("later", proc.Process(sleeper.process.pid, sleeper.process.started + 1))
    store.put("root", [1, inode])
    assert disown(store, root, 4.0) == ""
    assert [attempt.token for attempt in store.open_attempts("phase")] == ["later"]
    assert store.get("root") == list(identity(root) or ())


def test_the_original_keeps_what_runs_also_when_it_is_moved(
    tmp_path: Path, sleeper: Handle
) -> None:
    original = running(tmp_path / "run", sleeper)
    moved = original.rename(tmp_path / "moved")
    store = Store(RunDir.at(moved).state)
    assert disown(store, moved, 2.0) == ""
    (attempt,) = store.open_attempts("phase")
    assert attempt.process == sleeper.process


def test_a_run_of_an_older_program_keeps_what_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.sqlite")
    store.begin("server", "engine", "t", 1.0, "http://127.0.0.1:1")
    assert disown(store, tmp_path, 2.0) == "" and len(store.open_attempts("server")) == 1
    assert store.get("root") == list(identity(tmp_path) or ())


@pytest.mark.parametrize("own", [False, True])
def test_a_copied_benchmark_leaves_the_server_of_the_original(
    tmp_path: Path, sleeper: Handle, own: bool
) -> None:
    run, clock = RunDir.at(tmp_path), SystemClock()
    log = WorkerLog(run.events("bench", 1), clock)
    config = parse_config(CONFIG, source="test")
    worker = Worker(run, config, log, clock, "bench", 1)
    record = run.phase("bench") / "server.json"
    directory = [*(identity(tmp_path) or ())] if own else [1, 2]
    process = sleeper.process
    atomic.write_json(record, {"pid": process.pid, "started": process.started, "run": directory})
    Server(worker, config.server[0], "baseline", {})._end_left_over()
    assert not record.exists()
    if own:
        end = time.monotonic() + 10
        while proc.alive(process) and time.monotonic() < end:
            time.sleep(0.01)
    assert proc.alive(process) is not own
