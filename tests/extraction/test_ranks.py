"""Several ranks, kills and stops: every row once, whatever the number of ranks before and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eagle_tui.pipeline.extraction.team import LocalStore, Team
from eagle_tui.pipeline.hidden import iterate_hidden

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
    assert second.wait(180) == 1
    outcome, reason = world.end()
    assert outcome == "failed" and "1 of 2 ranks died without a word" in reason
    wait_for("no rank is left", lambda: not any(rank.is_running() for rank in ranks))
    after_two = len(shards_written(world))
    assert after_two >= after_one + 2 and not world.run.manifest("extract").exists()

    # Two ranks, asked to stop: exit 0, and what was collected is written.
    third = start(world, 0.25)
    wait_for("another shard", lambda: len(shards_written(world)) > after_two)
    ranks = ranks_of(third)
    third.send_signal(signal.SIGTERM)
    assert third.wait(180) == 0
    assert world.end()[0] == "stopped" and not world.run.manifest("extract").exists()
    assert len(ranks) == 2 and not any(rank.is_running() for rank in ranks)

    # Two ranks to the end, which report as one.
    last = start(world, 0.0)
    assert last.wait(180) == 0, world.end()
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


@pytest.mark.slow
def test_by_hand_under_torchrun(tmp_path: Path) -> None:
    """As on several machines: torchrun starts the phase itself."""
    world = make_world(tmp_path / "run", 20, **SMALL)
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*argv, "-m", "eagle_tui.pipeline.extract", str(world.run.root)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert world.end()[0] == "done" and set(stored(world)) == set(world.rows)
    assert "2 ranks" in world.notes()


def test_a_rank_that_is_alone_agrees_with_itself() -> None:
    team = Team(0, 1, 0, LocalStore())
    assert team.count("rows", 3) == 3 and team.count("rows", 2) == 5 and team.count("bad") == 0
    assert not team.over
    team.end_early()
    assert team.over
    team.tell("task", {"a": [1]})
    assert team.ask("task", lambda: False) == {"a": [1]}
