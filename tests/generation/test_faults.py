"""What servers do wrong, one fault at a time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from eagle_tui.clock import SystemClock
from eagle_tui.pipeline.generation import enders, policy, pool

from .fake_faults import Script
from .fake_server import FakeServer
from .language import CONTEXT, FIRST_WORD, OPEN, answer_to
from .test_pause import mode, until
from .world import World, make_world

DROP = {"policy": {"failed": "drop"}}


def first_time(fault: str) -> Script:
    """The fault for the first request of every fourth prompt (by its last digit)."""
    return lambda prompt, times: fault if times == 1 and prompt[-2] % 4 == 0 else None


def always(fault: str, digit: int) -> Script:
    """The fault for each request of the prompts whose number ends with this digit."""
    return lambda prompt, times: fault if prompt[-2] == FIRST_WORD + digit else None


async def run_with(world: World, script: Script, **settings: object) -> FakeServer:
    async with FakeServer(token_s=0.0005, script=script) as server:
        for name, value in settings.items():
            setattr(server, name, value)
        world.endpoint(server.url)
        await world.generate()
    return server


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are short here; how long they are is tested without waiting."""
    monkeypatch.setattr(pool, "PULSE_S", 0.05)
    monkeypatch.setattr(pool, "LOOK_AGAIN_S", 0.1)
    monkeypatch.setattr(enders, "STILL_S", 0.3)
    monkeypatch.setattr(enders, "ABORT_DEADLINE_S", 0.6)
    monkeypatch.setattr("eagle_tui.pipeline.generation.policy.FIRST_WAIT_S", 0.05)
    monkeypatch.setattr("eagle_tui.pipeline.generation.policy.LONGEST_WAIT_S", 0.2)


@pytest.mark.parametrize(
    "fault",
    ["500_text", "500_json", "503", "503_full", "reset", "reset_body", "abort", "garbled",
     "foreign", "400_unknown", "slow_body", "html"],
)  # fmt: skip
async def test_a_fault_of_one_attempt_costs_that_attempt(tmp_path: Path, fault: str) -> None:
    world = make_world(tmp_path / "run", {"b1": 40})
    server = await run_with(world, first_time(fault))
    assert world.check() == {"complete": 40, "dead": 0}
    assert len(set(server.rids)) == len(server.rids), "a request id was used twice"
    assert not server.live


async def test_abort_with_200_is_never_stored_as_success(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10})
    server = await run_with(world, lambda prompt, times: "abort" if times <= 3 else None)
    assert world.check() == {"complete": 10, "dead": 0}
    for row in world.rows():
        assert 1 < row["pieces"] <= server.asked[tuple(row["prompt_ids"])] == 4


async def test_length_inside_the_thought_is_truncated(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10}, generate={"max_new_tokens": 50})
    await run_with(world, always("in_thought", 3))
    row = next(row for row in world.rows() if row["id"].endswith("3"))
    assert (row["state"], row["content"], row["finish_reason"]) == ("truncated", "", "length")
    assert row["usage"]["completion_tokens"] == row["usage"]["reasoning_tokens"] == 50
    assert world.check()["truncated"] >= 1


@pytest.mark.parametrize("fault", ["empty", "no_content"])
async def test_no_answer_is_asked_for_once_more_and_then_final(tmp_path: Path, fault: str) -> None:
    world = make_world(tmp_path / "run", {"b1": 20})
    server = await run_with(world, always(fault, 7))
    assert world.check() == {"complete": 18, "no_answer": 2, "dead": 0}
    for row in world.rows():
        if row["state"] == "no_answer":
            assert server.asked[tuple(row["prompt_ids"])] == 2
    letters = world.dead()
    assert [row["state"] for row in letters] == ["no_answer"] * 2
    assert not any(row["final"] for row in letters)
    await world.generate()  # nothing is left
    assert world.events("result") == []


async def test_loop_is_named_and_not_tried_again(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 20})
    server = await run_with(world, always("loop", 7))
    assert world.check() == {"complete": 18, "loop": 2, "dead": 0}
    row = next(row for row in world.rows() if row["state"] == "loop")
    assert server.asked[tuple(row["prompt_ids"])] == 1
    assert len(row["output_ids"]) == 600


async def test_small_pool_is_flagged_and_said_once(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 20})

    await run_with(world, always("small_pool", 7))
    rows = [row for row in world.rows() if row["id"].endswith("7")]
    assert {(row["state"], row["flag"]) for row in rows} == {("truncated", "pool")}
    notes = [e["text"] for e in world.events("note") if "KV cache" in e["text"]]
    assert len(notes) == 1


async def test_over_context_is_a_dead_letter_at_once_with_both_lengths(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10})
    server = await run_with(world, always("400_context", 3))
    assert world.check() == {"complete": 9, "dead": 1}
    letter = world.dead()[0]
    assert (letter["state"], letter["final"]) == ("over_context", True)
    assert "prompt of 15 tokens" in letter["reason"] and str(CONTEXT) in letter["reason"]
    assert server.asked[tuple(world.prompts["b1"][letter["id"]])] == 1
    assert world.counts()["b1"]["states"] == {"complete": 9, "over_context": 1}
    await world.generate()
    assert world.events("dataset")[0]["states"] == {"complete": 9, "over_context": 1}


async def test_prompt_that_fills_the_context_is_not_sent(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 2}, words=CONTEXT - 6 - 1)
    server = await run_with(world, lambda prompt, times: None)
    assert server.rids == []
    assert [row["state"] for row in world.dead()] == ["over_context"] * 2
    assert "4,096" in world.dead()[0]["reason"]


async def test_room_in_the_context_limits_the_response(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 1}, words=CONTEXT - 6 - 1 - 10)
    server = await run_with(world, lambda prompt, times: None, keep_bodies=True)
    assert server.bodies[0]["sampling_params"]["max_new_tokens"] == 8


async def test_unknown_400_is_tried_twice_and_then_given_up(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10})
    server = await run_with(world, always("400_unknown", 3))
    assert world.check() == {"complete": 9, "dead": 1}
    letter = world.dead()[0]
    assert letter["state"] == "failed" and "odd request" in letter["reason"]
    assert server.asked[tuple(world.prompts["b1"][letter["id"]])] == 2


async def test_500_is_tried_again_as_often_as_configured(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10}, generate={"policy": {"failed": "retry 2"}})
    server = await run_with(world, always("500_json", 3))
    assert world.check() == {"complete": 9, "dead": 1}
    assert server.asked[tuple(world.prompts["b1"][world.dead()[0]["id"]])] == 3


async def test_a_prompt_that_brings_down_the_workers_of_a_router_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LOSSES", 2)
    world = make_world(tmp_path / "run", {"b1": 300})
    bad = world.prompts["b1"]["b1-00000000"]
    await run_with(world, lambda prompt, times: "502_late" if prompt == bad else None)
    assert world.check() == {"complete": 299, "dead": 1}
    reason = world.dead()[0]["reason"]
    assert reason == "HTTP 502 for it 3 times while others were answered: Bad Gateway"


async def test_tokens_of_another_model_are_never_stored(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10}, generate={"policy": {"failed": "retry 1"}})
    await run_with(world, always("foreign", 3))
    assert world.check() == {"complete": 9, "dead": 1}
    reason = world.dead()[0]["reason"]
    assert "token id 1000000" in reason and "serve another model" in reason


async def test_one_hanging_request_is_ended_and_sent_again(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 50}, generate={"request_stall_s": 0.5})
    hung: list[list[int]] = []

    def script(prompt: list[int], times: int) -> str | None:
        if prompt[-3:-1] == [FIRST_WORD + 2, FIRST_WORD + 5] and times == 1:
            hung.append(prompt)
            return "hang_abortable"
        return None

    server = await run_with(world, script)
    assert world.check() == {"complete": 50, "dead": 0}
    assert len(hung) == 1 and server.asked[tuple(hung[0])] == 2
    assert any("no answer for" in e["text"] for e in world.events("note"))


async def test_slow_is_fine_while_the_counter_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than a busy machine may keep this process waiting, less than the longest answer.
    monkeypatch.setattr(enders, "STILL_S", 1.5)
    world = make_world(tmp_path / "run", {"b1": 4}, generate={"request_stall_s": 1.5})
    async with FakeServer() as server:
        longest = max(len(answer_to(ids)) for ids in world.prompts["b1"].values())
        server.token_s = 4.0 / longest
        world.endpoint(server.url)
        await world.generate()
        assert "abort" not in server.calls
    assert world.check() == {"complete": 4, "dead": 0}
    assert max(e["s"] for e in world.events("result")) > 2.0


async def test_a_server_that_hangs_is_taken_out_and_comes_back(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 30}, generate={"request_stall_s": 0.4})
    async with FakeServer(token_s=0.002) as server:
        server.stuck = True  # from the beginning: none of the first requests is answered
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        server.answering.clear()
        await until(lambda: mode(world) == "waiting")
        server.stuck = False
        server.live.clear()
        server.answering.set()
        async with asyncio.timeout(60):
            await run
    assert world.check() == {"complete": 30, "dead": 0}


async def test_busy_health_is_not_ill(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 60})
    async with FakeServer(token_s=0.02) as server:
        server.healthy = False  # says 503 although it works
        server.script = lambda prompt, times: (
            "reset_body" if times == 1 and prompt[-2] == FIRST_WORD + 1 else None
        )
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: any("takes requests again" in e["text"] for e in world.events("note")))
        server.healthy = True
        await run
    assert world.check() == {"complete": 60, "dead": 0}


async def test_connection_closed_by_the_server_is_free(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 8}, generate={"concurrency": 2, **DROP})
    server = await run_with(world, first_time("reset"))
    assert world.check() == {"complete": 8, "dead": 0}
    assert sum(server.asked.values()) > 8


async def test_dead_server_is_waited_for_on_another_port(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 60})
    first = FakeServer(token_s=0.005)
    await first.start()
    world.endpoint(first.url)
    run = world.start()
    await until(lambda: len(first.live) == 16)
    await first.stop()
    await until(lambda: mode(world) == "waiting")
    flow = world.events("flow")[-1]
    assert flow["endpoints"]["s0"] and "s0" in flow["reason"]
    async with FakeServer(token_s=0.0005) as second:
        world.endpoint(second.url)
        await run
    assert world.check() == {"complete": 60, "dead": 0}


async def test_server_restarted_on_its_port_is_found_again(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 60})
    server = FakeServer(token_s=0.005)
    await server.start()
    world.endpoint(server.url)
    run = world.start()
    for _ in range(3):
        await until(lambda: len(server.live) >= 8)
        await server.stop()
        await asyncio.sleep(0.2)
        await server.start()
    await run
    await server.stop()
    assert world.check() == {"complete": 60, "dead": 0}
    assert {e["state"] for e in world.events("result")} == {"complete"}


async def test_two_endpoints_share_and_one_takes_over(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 120})
    async with FakeServer(token_s=0.003) as first, FakeServer(token_s=0.003) as second:
        world.endpoint(first.url, second.url)
        run = world.start()
        await until(lambda: len(first.live) == len(second.live) == 8)
        await until(lambda: {row["endpoint"] for row in world.rows()} == {"s0", "s1"})
        await first.stop()
        await run
        assert world.events("flow")[-1]["endpoints"]["s1"] == ""
    assert world.check() == {"complete": 120, "dead": 0}


async def test_full_queue_lowers_what_is_in_flight(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 80})
    server = await run_with(world, lambda prompt, times: None, max_running=4)
    assert world.check() == {"complete": 80, "dead": 0}
    assert server.most_live == 4


@pytest.mark.parametrize(
    ("key", "word"), [("wrong", "api_key_env"), (None, "not set")], ids=["wrong", "missing"]
)
async def test_a_refused_key_is_said_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, word: str
) -> None:
    world = make_world(tmp_path / "run", {"b1": 5})
    if key:
        monkeypatch.setenv("FAKE_KEY", key)
    async with FakeServer() as server:
        server.api_key = "right"
        world.endpoint(server.url, api_key_env="FAKE_KEY")
        run = world.start()
        await until(
            lambda: bool(world.events("flow")) and word in world.events("flow")[-1]["reason"]
        )
        monkeypatch.setenv("FAKE_KEY", "right")
        world.endpoint(f"{server.url}/", api_key_env="FAKE_KEY")
        await run
    assert world.check() == {"complete": 5, "dead": 0}


async def test_two_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(tmp_path / "run", {"b1": 20})
    monkeypatch.setenv("FAKE_KEY", "user")
    monkeypatch.setenv("FAKE_ADMIN_KEY", "admin")
    async with FakeServer(token_s=0.02) as server:
        server.api_key, server.admin_key = "user", "admin"
        world.endpoint(server.url, api_key_env="FAKE_KEY", admin_api_key_env="FAKE_ADMIN_KEY")
        run = world.start()
        await until(lambda: len(server.live) == 16)
        asked = time.monotonic()
        world.want(pause="hold")
        await until(lambda: mode(world) == "paused")
        assert time.monotonic() - asked < 4.0
        server.token_s = 0.0
        world.want(pause="no")
        await run
        assert "continue" in server.calls
    assert world.check() == {"complete": 20, "dead": 0}


async def test_a_prompt_that_would_kill_the_server_is_not_sent(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 3})
    path = world.run.prompts("b1")
    lines = path.read_bytes().splitlines(keepends=True)
    ids = world.prompts["b1"]["b1-00000001"]
    lines[1] = lines[1].replace(str(ids).replace(" ", "").encode(), b"[]")
    ids = world.prompts["b1"]["b1-00000002"]
    lines[2] = lines[2].replace(f"{OPEN}],".encode(), b"1000,3],")
    path.write_bytes(b"".join(lines))
    server = await run_with(world, lambda prompt, times: None)
    assert len(server.rids) == 1
    assert [row["state"] for row in world.dead()] == ["failed", "failed"]
    assert {row["reason"] for row in world.dead()} == {
        "the prompt has no tokens",
        "the prompt holds a token id outside 0..999",
    }


async def test_a_model_that_never_reasons_is_said(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 30, "b2": 30})
    silent = {tuple(ids) for ids in world.prompts["b2"].values()}
    await run_with(world, lambda prompt, times: "no_thought" if tuple(prompt) in silent else None)
    notes = [e["text"] for e in world.events("note") if "reasoning" in e["text"]]
    assert len(notes) == 1 and notes[0].startswith("b2: none of the first 20")
    assert world.counts()["b2"]["reasoned"] == 0 and world.counts()["b1"]["reasoned"] == 30


class SetBack(SystemClock):
    """A wall clock that an administrator sets back an hour with each look."""

    looks = 0

    def wall(self) -> float:
        self.looks += 1
        return 1_800_000_000.0 - 3600.0 * self.looks


async def test_wall_clock_set_back(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 40})
    async with FakeServer(token_s=0.001) as server:
        world.endpoint(server.url)
        await world.generate(replace(world.worker(), clock=SetBack()))
    assert world.check() == {"complete": 40, "dead": 0}
    assert all(0 <= e["s"] < 10 for e in world.events("result"))
    assert all(e["oldest_s"] >= 0 for e in world.events("flow"))
