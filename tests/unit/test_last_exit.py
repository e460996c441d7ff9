"""How the last attempt of a phase ended: kept over the supervisor's death, and told."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eagle_tui.cli.follow import render
from eagle_tui.clock import SystemClock
from eagle_tui.config.model import SupervisorSection
from eagle_tui.protocol import PhaseExit, PhaseStatus, RunStatus, Status, SupervisorStatus
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.figures import Figures
from eagle_tui.supervisor.launch import Exit
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.workers import Surroundings, WorkerSlot


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Exit(1, None), "attempt 3 died: exit code 1"),
        (Exit(None, 9), "attempt 3 died: killed by SIGKILL"),
        (Exit(None, 99), "attempt 3 died: killed by signal 99"),
        (Exit(None, None), "attempt 3 died"),
    ],
)
def test_words(ended: Exit, words: str) -> None:
    told = PhaseExit(attempt=3, outcome="died", at=1.0, code=ended.code, signal=ended.signal_name)
    assert told.words == words


def test_a_killed_worker_is_known_also_to_the_next_supervisor_whatever_lies_beside_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, clock = RunDir.at(tmp_path), SystemClock()
    store = Store(run.state)

    def slot() -> WorkerSlot:
        figures = Figures(run, clock)
        said = lambda *_: None  # noqa: E731
        return WorkerSlot("merge", Surroundings(run, store, clock, figures, said))

    stray = run.events("merge", 1).with_name("merge-0001.bak.jsonl")
    stray.parent.mkdir()
    stray.touch()
    stray.with_name(f"merge-{'9' * 20}.jsonl").touch()  # no number that could be kept
    first = slot()
    spawn = launch.spawn

    def dies(argv: list[str], **more: Any) -> launch.Handle:
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        return spawn([sys.executable, "-c", code], **more)

    monkeypatch.setattr(launch, "spawn", dies)
    first.launch()
    end = time.monotonic() + 30
    while first.check(SupervisorSection()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    told = first.last_exit
    assert told is not None
    assert (told.attempt, told.outcome, told.code, told.signal) == (1, "died", None, "SIGKILL")
    assert slot().last_exit == told
    store.close()


def test_status_says_it_of_one_that_went_wrong() -> None:
    died = PhaseExit(attempt=2, outcome="died", at=1.0, signal="SIGKILL")
    done = PhaseExit(attempt=1, outcome="done", at=1.0, code=0)
    status = Status(
        at=2.0,
        run=RunStatus(name="r", dir="/r", target="t"),
        supervisor=SupervisorStatus(),
        phases=(
            PhaseStatus(name="prepare", state="done", last_exit=done),
            PhaseStatus(name="generate", state="running", last_exit=died),
        ),
    )
    console = Console(width=200, file=io.StringIO())
    render(status, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "attempt 2 died: killed by SIGKILL" in text and "attempt 1" not in text
