"""Orders to generate prompts again: each exactly once, whatever is killed when."""

from __future__ import annotations

import asyncio
import errno
import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.pipeline.generation import retry
from eagle_tui.pipeline.generation.partials import partial_row
from eagle_tui.pipeline.generation.responses import encode, given_up
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.desired import Retry

from .fake_server import FakeServer
from .test_faults import always, quick  # noqa: F401 - a fixture
from .test_pause import mode, until
from .test_store import row
from .world import World, make_world


def order(world: World, *states: str, dataset: str | None = None) -> None:
    """As the supervisor gives it."""
    one = Retry(seq=world.wish.seq + 1, dataset=dataset, states=states)
    world.want(retries=(*world.wish.retries, one))


async def test_answers_are_moved_and_generated_anew_by_the_next_worker(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 20, "b2": 20})
    async with FakeServer(script=always("loop", 7)) as server:
        world.endpoint(server.url)
        await world.generate()
        assert world.check() == {"complete": 36, "loop": 4, "dead": 0}
        looped = {row["id"] for row in world.rows("b1") if row["state"] == "loop"}
        server.script = lambda prompt, times: None
        order(world, "loop", dataset="b1")
        await world.generate()
        assert world.check() == {"complete": 38, "loop": 2, "dead": 0}
        moved = [row for row in world.dead("b1") if "order" in row]
        assert {row["id"] for row in moved} == looped
        assert all(len(row["output_ids"]) == 600 and not row["final"] for row in moved)
        assert world.check_retries() == 2
        await world.generate()  # once
    assert world.events("result") == [] and world.check_retries() == 2


async def test_dead_letters_are_opened_again_by_a_live_worker(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 40}, generate={"policy": {"failed": "drop"}})
    async with FakeServer(token_s=0.05, script=always("500_json", 3)) as server:
        world.endpoint(server.url)
        world.want(pause="drain")
        run = world.start()
        world.want(pause="no")
        await until(lambda: len(given_up(world.run.dead("b1"))) == 4)
        server.token_s = 0.05
        server.script = lambda prompt, times: None
        order(world, "failed")
        await until(lambda: len(world.events("dataset")) == 2)
        assert world.events("dataset")[1]["states"].get("failed", 0) == 0
        await until(lambda: world.events("flow")[-1]["seq"] == world.wish.seq)
        server.token_s = 0.0
        await run
    assert world.check() == {"complete": 40, "dead": 0}
    assert world.check_retries() == 0
    reasons = [e["reason"] for e in world.events("flow") if e["mode"] == "draining"]
    assert any(reason.startswith("retry") for reason in reasons)


async def test_an_order_is_in_effect_only_when_it_was_carried_out(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 40})
    async with FakeServer(token_s=0.01) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(world.rows()) >= 3)
        before = world.wish.seq
        order(world, "complete")
        await until(lambda: world.events("flow")[-1]["seq"] == world.wish.seq)
        for flow in world.events("flow"):
            if flow["seq"] > before:
                break
            assert flow["seq"] <= before
        server.token_s = 0.0
        await run
    assert world.check() == {"complete": 40, "dead": 0}
    assert world.check_retries() >= 3


async def test_an_order_while_paused_is_carried_out_in_the_pause(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 30})
    async with FakeServer(token_s=0.01) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(world.rows()) >= 3)
        world.want(pause="hold")
        await until(lambda: mode(world) == "paused")
        order(world, "complete")
        await until(lambda: not world.rows())
        assert mode(world) == "paused" and not server.live
        server.token_s = 0.0
        world.want(pause="no")
        await run
    assert world.check() == {"complete": 30, "dead": 0}


async def test_tokens_kept_of_a_retried_answer_are_forgotten(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 6}, generate={"journal_tokens": 4})
    async with FakeServer(token_s=0.002) as server:
        world.endpoint(server.url)
        await world.generate()
        assert world.run.partial("b1").stat().st_size > 0
        order(world, "complete")
        server.keep_bodies = True
        await world.generate()
        assert all(len(body["input_ids"]) == 15 for body in server.bodies)
    assert world.check() == {"complete": 6, "dead": 0}


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do some work in a process that is gone at its n-th change of a file: before it, or, when it
    is a write, half-way through. False: it came to its end."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    left = number

    def hook(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if real is pwrite:
                    pwrite(args[0], bytes(args[1])[: len(args[1]) // 2], args[2])
                os._exit(9)
            return real(*args)

        return call

    pwrite = os.pwrite
    for name in ("pwrite", "fsync", "fdatasync", "ftruncate"):
        setattr(os, name, hook(getattr(os, name)))
    Path.replace = hook(Path.replace)  # type: ignore[method-assign]
    try:
        work()
        os._exit(0)
    finally:
        os._exit(1)


def prepare(world: World) -> tuple[Path, Path, Path]:
    """Files with a bit of everything."""
    run = world.run
    run.phase("generate").mkdir(exist_ok=True)
    rows = [row(f"r{n}", state="truncated" if n % 2 else "complete") for n in range(6)]
    run.responses("b1").write_bytes(b"".join(encode(r) for r in rows))
    letters = [
        {"id": f"d{n}", "state": "truncated" if n % 2 else "failed", "final": True}
        for n in range(4)
    ]
    run.dead("b1").write_bytes(b"".join(jsonl.encode(r) for r in letters))
    ids = ["r1", "r2", "d1", "d2", "x"]
    run.partial("b1").write_bytes(
        b"".join(partial_row(id, array("I", [1, 2]), 1, "m") for id in ids)
    )
    return run.responses("b1"), run.dead("b1"), run.partial("b1")


def test_killed_at_any_change_of_a_file_it_comes_to_the_same(tmp_path: Path) -> None:
    one = Retry(seq=7, states=("truncated",))
    kills = 0
    for number in range(1, 60):
        world = make_world(tmp_path / f"run{number}")
        files = responses, dead, partial = prepare(world)
        killed = killed_at(number, lambda files=files: retry.carry_out(one, *files, at=1.0))  # type: ignore[misc]
        kills += killed
        if killed and 7 not in retry.done(dead):
            # Nothing is lost in between: each answer is in one of the files at least.
            jsonl.repair(dead)
            ids = {r["id"] for f in (responses, dead) for r in jsonl.rows(f) if "id" in r}
            assert ids == {f"r{n}" for n in range(6)} | {f"d{n}" for n in range(4)}
            assert retry.carry_out(one, *files, at=2.0) == 5
        assert [r["id"] for r in jsonl.rows(responses)] == ["r0", "r2", "r4"]
        assert given_up(dead) == {"d0": "failed", "d2": "failed"}
        moved = sorted(r["id"] for r in jsonl.rows(dead) if "order" in r)
        assert moved == ["r1", "r3", "r5"]
        assert [r["id"] for r in jsonl.rows(partial)] == ["r2", "d2", "x"]
        assert retry.done(dead) == {7}
        if not killed:
            break
    assert not killed and kills >= 8, "the kills did not reach the changes"


async def test_a_full_disk_puts_an_order_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eagle_tui.pipeline.generation import runner

    monkeypatch.setattr(runner, "RETRY_S", 0.2)
    real, full = retry.drop_lines, [True]

    def drop(*args: Any, **options: Any) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*args, **options)

    monkeypatch.setattr(retry, "drop_lines", drop)
    world = make_world(tmp_path / "run", {"b1": 40})
    async with FakeServer(token_s=0.01) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(world.rows()) >= 3)
        order(world, "complete")
        await until(lambda: mode(world) == "paused")
        assert "no space is left on the disk" in world.events("flow")[-1]["reason"]
        await asyncio.sleep(0.5)
        assert not server.live
        full[0] = False
        server.token_s = 0.0
        await run
    assert world.check() == {"complete": 40, "dead": 0}
    assert world.check_retries() >= 3
