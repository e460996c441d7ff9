"""Whose the processes on the GPUs are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle_tui import proc
from eagle_tui.protocol import GpuStatus
from eagle_tui.supervisor.gpu_owners import Owners
from eagle_tui.supervisor.store import Store

Child = subprocess.Popen[bytes]


def sleeper(session: bool, token: str | None) -> Child:
    env = {k: v for k, v in os.environ.items() if k != proc.TOKEN_ENV}
    if token:
        env[proc.TOKEN_ENV] = token
    return subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; print(flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        start_new_session=session,
        env=env,
    )


@pytest.fixture
def children() -> Iterator[list[Child]]:
    found = [sleeper(True, None), sleeper(False, "t-train"), sleeper(True, None)]
    for child in found:
        assert child.stdout is not None
        child.stdout.readline()
    yield found
    for child in found:
        child.kill()
        child.communicate()


def test_by_session_by_token_and_others(tmp_path: Path, children: list[Child]) -> None:
    store = Store(tmp_path / "state.sqlite")
    server, rank, stranger = (child.pid for child in children)
    store.begin("server", "one", "t-server", 1.0, "http://x")
    process = proc.identify(server)
    assert process is not None
    store.launched("t-server", process)
    store.begin("phase", "train", "t-train", 1.0, None)
    owners = Owners(lambda: [*store.open_attempts("server"), *store.open_attempts("phase")])
    gone = 2**22 + 1
    used = tuple((pid, 2**30) for pid in (server, rank, stranger, gone, 0))
    gpus = (GpuStatus(index=0, name="X", processes=used), GpuStatus(index=1, name="Y"))
    first, second = owners.told(gpus)
    assert first.owners == ("server one", "train", "other", "other", "other")
    assert second.owners is None
    store.ended("t-server", 2.0, outcome="stopped", reason="")
    assert owners.told(gpus)[0].owners == first.owners, "a process stays whose it was"


def test_no_process_costs_no_look(tmp_path: Path) -> None:
    def never() -> list[object]:
        raise AssertionError

    gpus = (GpuStatus(index=0, name="X", processes=()), GpuStatus(index=1, name="Y"))
    assert Owners(never).told(gpus) == gpus  # type: ignore[arg-type]
