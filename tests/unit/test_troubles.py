"""What the system refuses is told in words: what, where, what to do. The errors are real ones
wherever they can be had without a machine of their own."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import proc, rules, troubles
from eagle_tui.cli import main as cli
from eagle_tui.config.presets import preset_text
from eagle_tui.protocol import RunStatus, Status, SupervisorStatus
from eagle_tui.reach import Halted, StartFailed, ensure_supervisor, halted, wait_gone
from eagle_tui.rundir import owner
from eagle_tui.rundir.owner import Owner
from eagle_tui.rundir.paths import RunDir


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "/x: no space is left on the disk; make room"),
        (errno.EROFS, "/x: the file system is mounted read-only; mount it for writing"),
        (errno.EIO, "/x: the disk answers with an error; look at the kernel log"),
        (errno.EDQUOT, "/x: the disk quota of this user is used up"),
        (errno.ESTALE, "/x: the network file system has lost it"),
        (errno.EACCES, "/x: not permitted for the user "),
        (errno.EMFILE, "/x: too many files are open; raise `ulimit -n`"),
        (errno.EXDEV, "/x: Invalid cross-device link"),
    ],
)
def test_errors_of_the_system(number: int, words: str) -> None:
    told = troubles.of(OSError(number, os.strerror(number), "/x")).sentence
    assert told.startswith(words)
    assert "Errno" not in told


def test_real_errors_of_the_system(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, words in (
        (file / "below", "a part of the path is a file"),
        (tmp_path / "no", "there is no such file"),
        (tmp_path, "there is a directory where a file should be"),
        (tmp_path / ("x" * 300), "the path is too long"),
    ):
        with pytest.raises(OSError, match="Errno") as caught:
            path.read_bytes()
        told = troubles.of(caught.value)
        assert words in told.what and str(tmp_path) in told.what


def sqlite_errors(root: Path) -> Iterator[tuple[str, sqlite3.Error]]:
    """Real ones: what is wrong → the error."""

    def failing(act: Callable[[], object]) -> sqlite3.Error:
        with pytest.raises(sqlite3.Error) as caught:
            act()
        return caught.value

    path = root / "state.sqlite"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE t (x)")
    db.execute("PRAGMA max_page_count = 2")
    yield "no space", failing(lambda: db.execute("INSERT INTO t VALUES (zeroblob(100000))"))
    other = sqlite3.connect(path, isolation_level=None, timeout=0)
    db.execute("BEGIN EXCLUSIVE")
    yield "another program holds", failing(lambda: other.execute("SELECT * FROM t"))
    db.execute("ROLLBACK")
    db.close()
    still = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    yield "cannot be written", failing(lambda: still.execute("INSERT INTO t VALUES (1)"))
    yield (
        "cannot be opened",
        failing(lambda: sqlite3.connect(root / "no" / "x").execute("SELECT 1")),
    )
    torn = root / "torn"
    torn.write_bytes(b"not a database at all, but long enough to be looked at" * 100)
    yield "is damaged", failing(lambda: sqlite3.connect(torn).execute("SELECT * FROM t"))


def test_errors_of_the_state_file_are_told_apart(tmp_path: Path) -> None:
    remedies = set()
    for words, error in sqlite_errors(tmp_path):
        told = troubles.of(error)
        assert words in told.what and str(error) in told.what and told.remedy
        remedies.add(told.remedy)
    assert len(remedies) == 5, "each has a remedy of its own"
    ill = troubles.of(sqlite3.OperationalError("disk I/O error"))
    assert "dmesg" in ill.remedy and "room" not in ill.remedy
    assert troubles.of(sqlite3.OperationalError("odd")).sentence == "odd"


def test_the_alert_says_what_to_do_about_that_very_error() -> None:
    status = Status(
        at=1.0, run=RunStatus(name="r", dir="/r", target="t"), supervisor=SupervisorStatus()
    )

    def remedy(error: Exception) -> str:
        (alert,) = rules.alerts(status, {}, True, troubles.of(error))
        assert alert.severity == "error" and "cannot keep the run's state" in alert.sentence
        return alert.remedy

    assert remedy(OSError(errno.ENOSPC, "", "/x")).startswith("make room; it tries again")
    assert "read-only" not in remedy(sqlite3.OperationalError("database is locked"))
    assert "database shell" in remedy(sqlite3.OperationalError("database is locked"))
    assert "make room" not in remedy(OSError(errno.EIO, "", "/x"))
    assert rules.alerts(status, {}, True) == ()


@given(st.binary(max_size=80))
def test_any_lock_is_read_or_is_none(text: bytes) -> None:
    found = owner.parse(text)
    assert found is None or isinstance(found, Owner)


def test_a_lock_is_read_as_it_was_written() -> None:
    has_it = Owner(12, 3456, "gpu-1")
    assert owner.parse(has_it.to_json().encode() + b"\n") == has_it
    assert has_it.words == "pid 12 on host gpu-1" and not has_it.here
    assert owner.parse(b"12\n") is None and owner.parse(b"[]") is None


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    (tmp_path / "run.toml").write_text(preset_text("demo", "r"))
    return RunDir.at(tmp_path)


def test_a_supervisor_that_is_stopped_is_named_at_once(
    run: RunDir, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    tick = proc.start_tick(sleeper.pid)
    assert tick is not None
    run.lock.write_text(Owner(sleeper.pid, tick, os.uname().nodename).to_json())
    run.state.touch()
    assert halted(run) == ""
    sleeper.send_signal(signal.SIGSTOP)
    os.waitpid(sleeper.pid, os.WUNTRACED)
    began = time.monotonic()
    with pytest.raises(Halted, match=rf"kill -CONT {sleeper.pid}"):
        ensure_supervisor(run, up=True)
    for words in (["status"], ["pause"], ["up", "-d"]):
        with pytest.raises(SystemExit) as ended:
            cli.main([words[0], str(run.root), *words[1:]])
        assert ended.value.code == 1
        assert f"kill -CONT {sleeper.pid}" in capsys.readouterr().err
    assert time.monotonic() - began < 15
    # Another process that got its number is not meant.
    run.lock.write_text(Owner(sleeper.pid, tick - 1, os.uname().nodename).to_json())
    assert halted(run) == ""
    sleeper.send_signal(signal.SIGCONT)


def test_a_supervisor_is_gone_when_its_process_is(
    run: RunDir, sleeper: subprocess.Popen[bytes]
) -> None:
    """It gives the lock back a moment before it ends."""
    assert wait_gone(run, 0.0), "there never was one"
    tick = proc.start_tick(sleeper.pid)
    assert tick is not None
    run.lock.write_text(Owner(sleeper.pid, tick, os.uname().nodename).to_json())
    assert not wait_gone(run, 0.1)
    sleeper.kill()
    sleeper.wait()
    assert wait_gone(run, 5.0)
    me = proc.current()
    fd = owner.take(run.lock, me.pid, me.started)
    assert not wait_gone(run, 0.1)
    with pytest.raises(owner.Taken, match=f"pid {me.pid} on host"):
        owner.take(run.lock, me.pid, me.started)
    os.close(fd)


def test_a_run_that_another_machine_has_is_told_at_once(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock on a shared disk: its owner's socket is of no use here."""
    said = "another supervisor has this run: pid 7 on host other"
    program = run.root / "program"
    program.write_text(f"#!/bin/sh\necho '{said}'\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    run.lock.write_text(json.dumps({"pid": 7, "started": 1, "host": "other"}))
    with pytest.raises(StartFailed, match="pid 7 on host other") as caught:
        ensure_supervisor(run, up=True)
    assert caught.value.code == 3
