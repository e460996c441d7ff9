"""Pause, resume, stop: nothing is lost, and what was begun is continued."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.pipeline.worker import Stopped
from eagle_tui.rundir import jsonl

from .fake_server import FakeServer
from .language import END, OPEN, VOCABULARY, answer_to
from .world import World, make_world


async def until(condition: Callable[[], bool], timeout_s: float = 40.0) -> None:
    """Wait for a condition, which must come true."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not happen"
        await asyncio.sleep(0.01)


def mode(world: World) -> str:
    flows = world.events("flow")
    return str(flows[-1]["mode"]) if flows else ""


def held_rows(world: World) -> list[dict[str, Any]]:
    """What the journal holds, but for answers that had just come to their end."""
    rows = jsonl.rows(world.run.partial("b1"))
    return [row for row in rows if row["output_ids"][-1] != END]


async def test_hold_keeps_what_was_made_and_resume_continues_it(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 40})
    async with FakeServer(token_s=0.02) as server:
        server.keep_bodies = True
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        await asyncio.sleep(0.15)
        asked = time.monotonic()
        world.want(pause="hold")
        await until(lambda: mode(world) == "paused")
        assert time.monotonic() - asked < 4.0
        assert not server.live
        flow = world.events("flow")[-1]
        assert flow["in_flight"] == {"b1": 0} and flow["seq"] == world.wish.seq
        # Already durable, before anything is resumed.
        held = {row["id"]: row for row in held_rows(world)}
        assert held
        sent = len(server.bodies)
        await asyncio.sleep(0.4)
        assert len(server.bodies) == sent, "sent while paused"
        server.token_s = 0.0005
        world.want(pause="no")
        await run
    assert world.check() == {"complete": 40, "dead": 0}
    for row in world.rows():
        if (part := held.get(row["id"])) is not None:
            assert row["pieces"] == 2
            assert row["output_ids"][: len(part["output_ids"])] == part["output_ids"]
    continued = [b for b in server.bodies[sent:] if b["input_ids"][-1] != OPEN]
    assert len(continued) == len(held)
    for body in continued:
        at = body["input_ids"].index(OPEN) + 1
        begun = len(body["input_ids"]) - at
        assert body["sampling_params"]["max_new_tokens"] == 600 - begun
    assert len(set(server.rids)) == len(server.rids)
    assert {len(rid) for rid in server.rids} == {32}


@pytest.mark.parametrize("journal", [0, 24])
async def test_drain_lets_all_end(tmp_path: Path, journal: int) -> None:
    world = make_world(tmp_path / "run", {"b1": 60}, generate={"journal_tokens": journal})
    async with FakeServer(token_s=0.005) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        world.want(pause="drain")
        await until(lambda: mode(world) in ("draining", "paused"))
        await until(lambda: mode(world) == "paused")
        assert "abort" not in server.calls
        assert journal or not world.run.partial("b1").exists()
        assert len(world.rows()) >= 16
        world.want(pause="no")
        await run
    assert world.check() == {"complete": 60, "dead": 0}
    assert all(row["pieces"] == 1 for row in world.rows())


@pytest.mark.parametrize("journal", [0, 24])
async def test_abort_drops_and_requeues(tmp_path: Path, journal: int) -> None:
    world = make_world(tmp_path / "run", {"b1": 30}, generate={"journal_tokens": journal})
    async with FakeServer(token_s=0.02) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        await asyncio.sleep(0.1)
        world.want(pause="abort")
        await until(lambda: mode(world) == "paused")
        assert not server.live
        server.token_s = 0.0005
        world.want(pause="no")
        await run
    assert world.check() == {"complete": 30, "dead": 0}
    assert journal or not world.run.partial("b1").exists()
    assert all(row["pieces"] == 1 for row in world.rows())


async def test_stop_saves_partials_and_the_next_worker_continues_them(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 40})
    async with FakeServer(token_s=0.02) as server:
        server.keep_bodies = True
        world.endpoint(server.url)
        worker = world.worker()
        run = world.start(worker)
        await until(lambda: len(server.live) == 16)
        await asyncio.sleep(0.15)
        asked = time.monotonic()
        worker.stop.set()
        with pytest.raises(Stopped):
            await run
        assert time.monotonic() - asked < 4.0
        assert not server.live
        held = [row["id"] for row in held_rows(world)]
        assert held
        server.token_s = 0.0005
        await world.generate()
    assert world.check() == {"complete": 40, "dead": 0}
    pieces = {row["id"]: row["pieces"] for row in world.rows()}
    assert all(pieces[id] == 2 for id in held)
    # The answers are final now, so that the journal holds nothing that counts.
    await world.generate()
    assert world.run.partial("b1").read_bytes() == b""


async def test_a_piece_that_ends_the_turn_is_a_whole_answer(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 1})
    async with FakeServer() as server:
        prompt = world.prompts["b1"]["b1-00000000"]
        row = {"id": "b1-00000000", "pieces": 1, "output_ids": answer_to(prompt)}
        made = await _fingerprint(world)
        world.run.partial("b1").parent.mkdir()
        world.run.partial("b1").write_bytes(jsonl.encode({**row, "made": made}))
        world.endpoint(server.url)
        await world.generate()
        assert server.rids == []
    assert world.check() == {"complete": 1, "dead": 0}


async def test_tokens_made_from_other_inputs_are_not_continued(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 1})
    async with FakeServer() as server:
        row = {"id": "b1-00000000", "pieces": 1, "output_ids": [77, 78], "made": "another model"}
        world.run.partial("b1").parent.mkdir()
        world.run.partial("b1").write_bytes(jsonl.encode(row))
        world.endpoint(server.url)
        await world.generate()
    assert world.check() == {"complete": 1, "dead": 0}


async def test_tokens_that_the_target_does_not_have_are_not_continued(tmp_path: Path) -> None:
    """A stream of a server with another model broke off, and the journal kept what it brought."""
    world = make_world(tmp_path / "run", {"b1": 1})
    async with FakeServer() as server:
        server.keep_bodies = True
        await _journal(world, [77, VOCABULARY, 78])
        world.endpoint(server.url)
        await world.generate()
    assert world.check() == {"complete": 1, "dead": 0}
    assert [body["input_ids"][-1] for body in server.bodies] == [OPEN]
    assert world.rows()[0]["pieces"] == 1
    assert [r["output_ids"] for r in jsonl.rows(world.run.partial("b1"))][-1] == []


async def test_an_answer_asked_for_again_begins_anew(tmp_path: Path) -> None:
    """Also after a crash: the journal says that the tokens so far do not count."""
    world = make_world(tmp_path / "run", {"b1": 1})
    async with FakeServer(script=lambda prompt, times: "end_now" if times == 1 else None) as server:
        server.keep_bodies = True
        await _journal(world, [77, 78])
        world.endpoint(server.url)
        await world.generate()
    assert world.check() == {"complete": 1, "dead": 0}
    assert [body["input_ids"][-1] for body in server.bodies] == [78, OPEN]
    assert world.rows()[0]["pieces"] == 1
    assert [r["output_ids"] for r in jsonl.rows(world.run.partial("b1"))] == [[77, 78], []]
    assert world.dead()[0]["output_ids"] == [77, 78, END]


async def test_an_unanswered_abort_closes_the_connection(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 3})
    async with FakeServer() as server:
        server.script = lambda prompt, times: "hang" if times == 1 else None
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 3)
        asked = time.monotonic()
        world.want(pause="hold")
        await until(lambda: mode(world) == "paused")
        assert 4.0 < time.monotonic() - asked < 20.0
        world.want(pause="no")
        await run
    assert world.check() == {"complete": 3, "dead": 0}


async def _journal(world: World, tokens: list[int]) -> None:
    """Leave what a worker before has had of the only answer."""
    row = {"id": "b1-00000000", "pieces": 1, "output_ids": tokens}
    world.run.partial("b1").parent.mkdir()
    journal = jsonl.encode({**row, "made": await _fingerprint(world)})
    world.run.partial("b1").write_bytes(journal)


async def _fingerprint(world: World) -> str:
    from eagle_tui.config import load_config
    from eagle_tui.rundir import manifest

    config = load_config(world.run.config)
    return manifest.fingerprint(manifest.inputs_of(config, world.run, "generate"))
