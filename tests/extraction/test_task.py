"""What the ranks of an attempt agree on, however late one of them looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.config import load_config
from eagle_tui.pipeline.extraction.task import Task, Work, look_up, quarantine_path, set_up
from eagle_tui.rundir import jsonl

from .world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path / "run", 20)


def attempt(world: World, number: int) -> Task:
    return set_up(world.run, number, "key", {"layers": "1,2,3"}, set(world.rows))


def work(world: World, task: Task) -> Work:
    return look_up(load_config(world.run.config), world.run, task)


def put_away(world: World, task: Task, rank: int, name: str) -> None:
    directory = world.run.phase("extract") / task.directory
    with jsonl.Appender(quarantine_path(directory, rank)) as appender:
        appender.append({"id": name, "dataset": "set0", "reason": "x"})


def test_what_another_rank_puts_away_meanwhile_changes_no_share(world: World) -> None:
    task = attempt(world, 1)
    first = work(world, task)
    put_away(world, task, 0, "row-0003")
    late = work(world, task)
    assert late == first and len(first.left) == 20


def test_what_earlier_attempts_put_away_is_done(world: World) -> None:
    task = attempt(world, 1)
    put_away(world, task, 0, "row-0003")
    put_away(world, task, 1, "row-0004")
    task = attempt(world, 2)
    put_away(world, task, 0, "row-0005")
    found = work(world, task)
    assert found.bad == 2 and len(found.left) == 18
    task = attempt(world, 3)
    found = work(world, task)
    assert found.bad == 3
    assert {r.id for r in found.wanted} - {r.id for r in found.left} == {
        f"row-000{n}" for n in (3, 4, 5)
    }


def test_rows_that_are_no_longer_wanted_do_not_count(world: World) -> None:
    task = attempt(world, 1)
    put_away(world, task, 0, "row-0018")
    world.settings(samples=5)
    task = set_up(world.run, 2, "key", {"layers": "1,2,3"}, {"row-0000"})
    found = work(world, task)
    assert found.bad == 0 and len(found.left) == len(found.wanted) == 7
