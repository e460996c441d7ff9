"""Several ranks, kills and stops: every row once, whatever the number of ranks before and after."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.clock import SystemClock
from eagle_tui.pipeline.extraction.launch import last_outcome, run_ranks
from eagle_tui.pipeline.extraction.team import LocalStore, Team
from eagle_tui.pipeline.hidden import iterate_hidden
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.paths import RunDir

from .ranks import ranks_of, shards_written, start, wait_for
from .test_extract import reference, stored, worst
from .world import World, make_world

SMALL = {"batch_tokens": 120, "shard_tokens": 150, "dtype": "float32"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "run", 90, **SMALL)


@pytest.mark.slow
def test_kills_and_stops_with_one_and_two_ranks_lose_and_double_nothing(world: World) -> None:
    # One rank, killed at work.
    first = start(world, 0.15)
    wait_for("shards of one rank", lambda: len(shards_written(world)) >= 2)
    first.kill()
    first.wait()
    after_one = len(shards_written(world))
    assert after_one >= 2 and not world.run.manifest("extract").exists()

    # Two ranks; the second one is killed, and the first, the starter of both and the log know.
    world.settings(nproc=2, **SMALL)
    second = start(world, 0.25)
    wait_for("shards of two ranks", lambda: len(shards_written(world)) >= after_one + 2)
    assert "goes on where it was" in world.notes() and "2 ranks" in world.notes()
    ranks = ranks_of(second)
    assert len(ranks) == 2
    ranks[1].kill()
    assert second.wait(60) == 1
    outcome, reason = world.end()
    assert outcome == "failed" and "a rank of 2 died" in reason
    wait_for("no rank is left", lambda: not any(rank.is_running() for rank in ranks))
    after_two = len(shards_written(world))
    assert after_two >= after_one + 2 and not world.run.manifest("extract").exists()

    # One rank, asked to stop: exit 0, and what was collected is written.
    world.settings(nproc=1, **SMALL)
    third = start(world, 0.25)
    wait_for("another shard", lambda: len(shards_written(world)) > after_two)
    third.send_signal(signal.SIGTERM)
    assert third.wait(60) == 0
    assert world.end()[0] == "stopped" and not world.run.manifest("extract").exists()

    # Two ranks to the end, which report as one.
    world.settings(nproc=2, **SMALL)
    last = start(world, 0.0)
    assert last.wait(60) == 0, world.end()
    assert world.end()[0] == "done"
    progress = [(e["done"], e["total"]) for e in world.events() if e["e"] == "progress"]
    assert progress == sorted(progress) and progress[-1] == (90, 90)
    assert [e["e"] for e in world.events()].count("end") == 1
    rows = stored(world)  # fails when an id is there twice
    assert set(rows) == set(world.rows)
    assert sum(1 for _ in iterate_hidden(world.run, "val")) == 9
    for name, (aux, last_state, _) in reference(world, (2, 4, 5)).items():
        assert worst(rows[name].aux, aux) < 1e-5
        assert worst(rows[name].last, last_state) < 1e-5


class Torchrun:
    """Stands in for torchrun: the first rank's log ends as it is told to."""

    def __init__(self, run: RunDir, outcome: str, code: int, *, asked: bool) -> None:
        self._run, self._outcome, self._code, self._asked = run, outcome, code, asked
        self.argv: list[str] = []
        self.signals: list[int] = []

    def __call__(self, argv: list[str], **_: Any) -> Torchrun:
        self.argv = argv
        return self

    def wait(self) -> int:
        if self._asked:
            signal.raise_signal(signal.SIGTERM)
        if self._outcome:
            log = WorkerLog(self._run.events("extract", 4), SystemClock())
            log.emit("end", outcome=self._outcome, reason="x", code=0)
            log.close()
        return self._code

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


@pytest.mark.parametrize(
    ("outcome", "torchrun_code", "asked", "code", "told"),
    [
        ("done", 0, False, 0, "done"),
        ("refused", 1, False, 3, "refused"),
        ("failed", 1, False, 1, "failed"),
        ("stopped", 1, True, 0, "stopped"),  # asked to, and it did
        ("stopped", 1, False, 1, "failed"),  # torchrun ended the first rank since another died
        ("", 1, False, 1, "failed"),  # the first rank died without a word
        ("", 1, True, 0, ""),  # stopped before it had begun
    ],
)
def test_the_phase_ends_as_its_ranks_did(
    tmp_path: Path, outcome: str, torchrun_code: int, asked: bool, code: int, told: str
) -> None:
    run = RunDir.at(tmp_path)
    torchrun = Torchrun(run, outcome, torchrun_code, asked=asked)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert run_ranks("module", run, "extract", 4, 2, popen=torchrun) == code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert torchrun.signals == ([signal.SIGTERM] if asked else [])
    assert torchrun.argv[-5:] == ["-m", "module", str(run.root), "--attempt", "4"]
    assert last_outcome(run, "extract", 4) == told


def test_a_rank_that_is_alone_agrees_with_itself() -> None:
    team = Team(0, 1, 0, LocalStore())
    assert team.count("rows", 3) == 3 and team.count("rows", 2) == 5 and team.count("bad") == 0
    assert not team.over
    team.end_early()
    assert team.over
    team.tell("task", {"a": [1]})
    assert team.ask("task", lambda: False) == {"a": [1]}
