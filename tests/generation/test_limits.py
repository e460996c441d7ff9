"""Caps, order, concurrency, skip and finish, live."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.pipeline.generation.answers import Outcome
from eagle_tui.pipeline.generation.attempts import Attempts
from eagle_tui.pipeline.generation.client import Client
from eagle_tui.pipeline.generation.responses import encode
from eagle_tui.rundir.desired import DatasetControl

from .fake_server import FakeServer
from .test_pause import mode, until
from .world import make_world


async def test_sample_cap_is_exact_and_raising_it_continues(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 50}, datasets={"b1": {"cap_samples": 23}})
    async with FakeServer(token_s=0.001) as server:
        world.endpoint(server.url)
        await world.generate()
        assert world.check(whole=False) == {"complete": 23, "dead": 0}
        counts = world.counts()["b1"]
        assert (counts["capped"], counts["left"]) == (True, 27)
        world.want(datasets={"b1": DatasetControl(cap_samples=31)})
        await world.generate()
        assert world.check(whole=False) == {"complete": 31, "dead": 0}
        world.want(datasets={"b1": DatasetControl(cap_samples=0)})
        await world.generate()
    assert world.check() == {"complete": 50, "dead": 0}


async def test_token_cap_is_overshot_by_what_is_in_flight_at_most(tmp_path: Path) -> None:
    world = make_world(
        tmp_path / "run", {"b1": 300}, generate={"concurrency": 8}, datasets={"b1": {}}
    )
    async with FakeServer(token_s=0.0005) as server:
        world.endpoint(server.url)
        world.want(datasets={"b1": DatasetControl(cap_tokens=1500)})
        await world.generate()
    rows = world.rows()
    tokens = [row["usage"]["completion_tokens"] for row in rows]
    assert sum(tokens) >= 1500
    # The last ones to be stored were in flight when the cap was reached.
    assert sum(tokens) - 1500 <= sum(sorted(tokens)[-8:])
    assert sum(tokens[: len(tokens) - 8]) < 1500
    assert world.counts()["b1"]["capped"]
    assert json.loads(world.run.manifest("generate").read_bytes())["early"] == ""


async def test_total_caps_hold_and_raising_them_continues(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 30, "b2": 30}, generate={"cap_samples_total": 37})
    async with FakeServer(token_s=0.0005) as server:
        world.endpoint(server.url)
        await world.generate()
        assert world.check(whole=False) == {"complete": 37, "dead": 0}
        assert len(world.rows("b1")) == 30
        assert json.loads(world.run.manifest("generate").read_bytes())["early"] == ""
        world.want(cap_samples_total=45)
        await world.generate()
        assert world.check(whole=False) == {"complete": 45, "dead": 0}
        before = sum(row["usage"]["completion_tokens"] for row in world.rows("b1"))
        world.want(cap_samples_total=0, cap_tokens_total=before)
        await world.generate()
        assert len(server.rids) == 45, "the tokens are there already"
        world.want(cap_samples_total=0, cap_tokens_total=0)
        await world.generate()
    assert world.check() == {"complete": 60, "dead": 0}


@pytest.mark.parametrize("order", ["file", "shortest_first", "longest_first"])
async def test_prompt_order(tmp_path: Path, order: str) -> None:
    world = make_world(
        tmp_path / "run", {"b1": 20}, generate={"prompt_order": order, "concurrency": 1}
    )
    path = world.run.prompts("b1")
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    for number, row in enumerate(rows):
        row["prompt_ids"] = [11 + number] * (number * 7 % 20) + row["prompt_ids"]
        world.prompts["b1"][row["id"]] = row["prompt_ids"]
    # As another program may write it, and as we do.
    lines = [json.dumps({"prompt_ids": r.pop("prompt_ids"), **r}).encode() for r in rows[:10]]
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b"".join(map(encode, rows[10:])))
    async with FakeServer() as server:
        server.keep_bodies = True
        world.endpoint(server.url)
        await world.generate()
    sizes = [len(body["input_ids"]) for body in server.bodies]
    if order == "file":
        assert sizes == [15 + number * 7 % 20 for number in range(20)]
    else:
        assert sizes == sorted(sizes, reverse=order == "longest_first")
    assert sum(row["state"] == "complete" for row in world.rows()) == 20


async def test_skip_and_order_live(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 40, "b2": 20, "b3": 10})
    async with FakeServer(token_s=0.003) as server:
        world.endpoint(server.url)
        world.want(order=("b3",), datasets={"b2": DatasetControl(skip=True)})
        await world.generate()
    first = [e["ds"] for e in world.events("result")][:10]
    assert first.count("b3") > 5
    assert len(world.rows("b3")) == 10 and len(world.rows("b1")) == 40
    assert not world.rows("b2")
    assert world.counts()["b2"] | {"skipped": True, "left": 20} == world.counts()["b2"]


async def test_concurrency_live_and_the_next_dataset_fills_up(tmp_path: Path) -> None:
    world = make_world(
        tmp_path / "run",
        {"b1": 30, "b2": 60},
        generate={"concurrency": 10, "concurrency_long": 4},
        datasets={"b2": {"length": "long", "max_new_tokens": 600}},
    )
    of_b2 = {tuple(ids) for ids in world.prompts["b2"].values()}
    seen: set[tuple[int, int]] = set()
    async with FakeServer(token_s=0.06) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 10)
        world.want(datasets={"b1": DatasetControl(concurrency=20)})
        await until(lambda: len(server.live) == 20)
        server.token_s = 0.01
        while not run.done():
            second = sum(tuple(live.prompt) in of_b2 for live in server.live.values())
            seen.add((len(server.live) - second, second))
            await asyncio.sleep(0.003)
        await run
    assert world.check() == {"complete": 90, "dead": 0}
    assert all(first / 20 + second / 4 <= 1.0 for first, second in seen)
    assert any(first and second for first, second in seen), "no overlap"
    assert (0, 4) in seen


async def test_finish_drains_and_says_what_is_left(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 2000, "b2": 1500})
    async with FakeServer(token_s=0.003) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        await asyncio.sleep(0.2)
        world.want(finish=("generate",))
        await until(lambda: mode(world) == "finishing")
        await run
        assert not server.live and "abort" not in server.calls
    done = len(world.rows())
    manifest = json.loads(world.run.manifest("generate").read_bytes())
    assert manifest["early"] == f"{3500 - done:,} prompts left: b1 {2000 - done:,}, b2 1,500"
    assert manifest["counts"]["b1"]["states"] == {"complete": done}
    assert list(manifest["outputs"]) == ["b1.jsonl"]


async def test_finish_while_paused_ends_with_what_is_there(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 200})
    async with FakeServer(token_s=0.02) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        world.want(pause="hold")
        await until(lambda: mode(world) == "paused")
        world.want(finish=("generate",))
        await run
    assert world.run.manifest("generate").exists()


@pytest.mark.parametrize(("cap", "sent_by_then"), [(5, [2, 3, 4, 5, 5]), (3, [2, 3, 3])])
async def test_the_next_request_is_on_its_way_before_an_answer_is_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: int, sent_by_then: list[int]
) -> None:
    sent = 0
    seen: list[int] = []
    generate, answered = Client.generate, Attempts._answered

    async def counted(self: Client, *args: Any) -> Outcome:
        nonlocal sent
        sent += 1
        return await generate(self, *args)

    def noted(self: Attempts, *args: Any) -> None:
        seen.append(sent)
        answered(self, *args)

    monkeypatch.setattr(Client, "generate", counted)
    monkeypatch.setattr(Attempts, "_answered", noted)
    world = make_world(
        tmp_path / "run",
        {"b1": 5},
        generate={"concurrency": 1},
        datasets={"b1": {"cap_samples": cap}},
    )
    async with FakeServer(token_s=0.0005) as server:
        world.endpoint(server.url)
        await world.generate()
    assert world.check(whole=False)["complete"] == len(seen)
    assert seen == sent_by_then
