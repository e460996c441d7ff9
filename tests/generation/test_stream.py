"""Streamed answers, and the journal that they fill."""

from __future__ import annotations

import asyncio
import itertools
import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.generation import ledger
from eagle_tui.pipeline.generation.answers import Answer, Trouble
from eagle_tui.pipeline.generation.partials import load, partial_row
from eagle_tui.pipeline.generation.stream import Stream
from eagle_tui.rundir import jsonl

from .fake_server import FakeServer
from .language import END, answer_to
from .test_pause import mode, until
from .world import World, make_world

FIXTURES = Path(__file__).parent / "fixtures"


def event(ids: list[int], count: int, reason: dict[str, Any] | None = None) -> bytes:
    meta = {"finish_reason": reason, "completion_tokens": count, "prompt_tokens": 3}
    return b"data: " + json.dumps({"output_ids": ids, "meta_info": meta}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
STOP = {"type": "stop", "matched": END}


@pytest.mark.parametrize("version", ["0.5.17", "0.5.23"])
@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_recorded_streams(version: str, size: int) -> None:
    found = []
    for kind in ("stream", "stream-incremental"):
        data = (FIXTURES / f"{kind}-{version}.sse").read_bytes()
        stream = Stream()
        grown = sum(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
        outcome = stream.end()
        assert isinstance(outcome, Answer)
        assert (outcome.finish, outcome.length, outcome.prompt_tokens) == ("length", 10, 4)
        assert grown >= (1 if size == 100_000 else 5)
        found.append(outcome.output_ids.tolist())
    assert found[0] == found[1] and len(found[0]) == 10


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=30),
    st.lists(st.integers(1, 30), max_size=6),
    st.booleans(),
    st.integers(1, 400),
    st.sampled_from(["done", "no [DONE]", "cut"]),
)
def test_cumulative_and_incremental_events_come_to_the_same(
    ids: list[int], cuts: list[int], incremental: bool, size: int, how: str
) -> None:
    data, told = b"", 0
    for cut in sorted({c for c in cuts if c < len(ids)}):
        data += event(ids[told if incremental else 0 : cut], cut)
        told = cut
    if how != "cut":
        data += event(ids[told if incremental else 0 :], len(ids), STOP)
    data += DONE if how == "done" else b""
    stream = Stream()
    for at in range(0, len(data), size):
        stream.feed(data[at : at + size])
    outcome = stream.end()
    if how == "cut":
        assert isinstance(outcome, Trouble) and outcome.kind == "lost"
        assert stream.ids.tolist() == ids[:told]
    else:
        assert isinstance(outcome, Answer) and outcome.finish == "stop"
        assert outcome.output_ids.tolist() == ids


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'data: {"error":{"message":"bad","code":400,"retryable":false}}\n\n', "rejected"),
        (
            b'data: {"error":{"message":"The input (9 tokens) is longer than the model\'s context'
            b' length (8 tokens).","code":400}}\n\n',
            "over_context",
        ),
        (b'data: {"error":{"message":"The request queue is full.","code":503}}\n\n', "busy"),
        (b'data: {"error":"boom"}\n\n', "server_error"),
        (event([5], 1, {"type": "abort", "message": "m", "status_code": 500}), "server_error"),
        (b"data: {]\n\n", "garbled"),
        (b"data: 5\n\n", "garbled"),
        (b"data: [DONE]\n\n", "lost"),
        (b"", "lost"),
        (event([5], 1, {"type": "odd"}), "garbled"),
    ],
)  # fmt: skip
def test_a_stream_that_brings_no_answer(data: bytes, kind: str) -> None:
    stream = Stream()
    stream.feed(data + DONE)
    outcome = stream.end()
    assert isinstance(outcome, Trouble) and outcome.kind == kind


def test_tokens_that_were_left_out_end_the_answer_where_it_is_known() -> None:
    stream = Stream()
    stream.feed(event([5, 6], 2))
    stream.feed(event([9], 7, STOP))  # as 0.5.17 does after a retraction
    outcome = stream.end()
    assert isinstance(outcome, Answer) and (outcome.finish, outcome.plain_abort) == ("abort", True)
    assert outcome.output_ids.tolist() == [5, 6]


def test_an_abort_that_lost_its_tokens_keeps_those_of_the_stream() -> None:
    stream = Stream()
    stream.feed(event([5, 6], 2) + event([], 0, {"type": "abort", "message": "Aborted"}))
    outcome = stream.end()
    assert isinstance(outcome, Answer) and outcome.finish == "abort"
    assert outcome.output_ids.tolist() == [5, 6]


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_read(chunks: list[bytes]) -> None:
    stream = Stream()
    for chunk in chunks:
        stream.feed(b"data: " + chunk)
        stream.feed(chunk + b"\n")
    assert isinstance(stream.end(), Trouble | Answer)


def test_journal_rows_add_up(tmp_path: Path) -> None:
    path = tmp_path / "b1.partial.jsonl"

    def part(id: str, ids: list[int], start: int, pieces: int = 1) -> bytes:
        return partial_row(id, array("I", ids), pieces, "m", start)

    path.write_bytes(
        part("a", [1, 2], 0) + part("a", [3], 2, 2)  # goes on
        + part("b", [1, 2, 3], 0) + part("b", [], 1)  # cut short
        + part("c", [1], 0) + part("c", [9], 5, 7)  # a row between was lost
        + part("d", [1], 0) + part("d", [], 0)  # begun anew
        + part("e", [1], 0) + part("e", [7, 8], 0)
        + part("f", [1], 3)
    )  # fmt: skip
    found = {p.id: (list(p.output_ids), p.pieces) for p in load(path, "m", set("abcdef"))}
    assert found == {
        "a": ([1, 2, 3], 2), "b": ([1], 1), "c": ([1], 1), "e": ([7, 8], 1),
    }  # fmt: skip
    again = {p.id: (list(p.output_ids), p.pieces) for p in load(path, "m", set("abcdef"))}
    assert again == found and len(list(jsonl.rows(path))) == 4


def saved(world: World) -> dict[str, list[int]]:
    """The tokens that the journal holds, by id, read without touching the file."""
    found: dict[str, list[int]] = {}
    for row in jsonl.rows(world.run.partial("b1")):
        found[row["id"]] = found.get(row["id"], [])[: row["from"]] + row["output_ids"]
    return found


@pytest.mark.parametrize("incremental", [False, True])
async def test_a_server_that_dies_costs_the_tokens_of_one_interval(
    tmp_path: Path, incremental: bool
) -> None:
    world = make_world(tmp_path / "run", {"b1": 16}, generate={"journal_tokens": 8})
    first = FakeServer(token_s=0.02)
    first.incremental = incremental
    await first.start()
    world.endpoint(first.url)
    run = world.start()
    await until(lambda: bool(world.run.partial("b1").exists() and len(saved(world)) >= 3))
    kept = saved(world)
    await first.stop()
    async with FakeServer() as second:
        second.keep_bodies = True
        world.endpoint(second.url)
        await run
    assert world.check() == {"complete": 16, "dead": 0}
    begun = {tuple(body["input_ids"][:15]): len(body["input_ids"]) - 15 for body in second.bodies}
    for id, ids in kept.items():
        prompt = world.prompts["b1"][id]
        assert answer_to(prompt)[: len(ids)] == ids
        if tuple(prompt) in begun:  # it was not finished by then
            assert begun[tuple(prompt)] >= len(ids) >= 8


async def test_short_answers_are_not_streamed(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 5}, generate={"journal_tokens": 600})
    async with FakeServer() as server:
        server.keep_bodies = True
        world.endpoint(server.url)
        await world.generate()
    assert not any(body["stream"] for body in server.bodies)
    assert not world.run.partial("b1").exists()


async def test_hold_and_continue_with_streams(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 90}, generate={"journal_tokens": 8})
    async with FakeServer(token_s=0.02) as server:
        world.endpoint(server.url)
        run = world.start()
        for _ in range(3):
            await until(lambda: len(server.live) >= 8)
            await asyncio.sleep(0.2)
            world.want(pause="hold")
            await until(lambda: mode(world) == "paused")
            assert not server.live
            for id, ids in saved(world).items():
                assert answer_to(world.prompts["b1"][id])[: len(ids)] == ids
            world.want(pause="no")
        server.token_s = 0.0
        await run
    assert world.check() == {"complete": 90, "dead": 0}


@pytest.mark.parametrize("fault", ["reset_body", "no_done", "slow_body", "abort"])
async def test_a_stream_that_breaks_off_is_continued(tmp_path: Path, fault: str) -> None:
    world = make_world(tmp_path / "run", {"b1": 20}, generate={"journal_tokens": 4})
    script = lambda prompt, times: fault if times == 1 else None  # noqa: E731
    async with FakeServer(token_s=0.001, script=script) as server:
        world.endpoint(server.url)
        await world.generate()
    assert world.check() == {"complete": 20, "dead": 0}
    if fault != "slow_body":
        assert sum(row["pieces"] > 1 for row in world.rows()) >= 10


async def test_a_journal_that_grows_is_rewritten_with_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "JOURNAL_GROWTH", 2000)
    world = make_world(tmp_path / "run", {"b1": 120}, generate={"journal_tokens": 4})
    sizes: list[int] = []
    async with FakeServer(token_s=0.005) as server:
        world.endpoint(server.url)
        run = world.start()
        while not run.done():
            if world.run.partial("b1").exists():
                sizes.append(world.run.partial("b1").stat().st_size)
                for id, ids in saved(world).items():
                    assert answer_to(world.prompts["b1"][id])[: len(ids)] == ids
            await asyncio.sleep(0.05)
        await run
    assert world.check() == {"complete": 120, "dead": 0}
    assert any(after < before for before, after in itertools.pairwise(sizes))
