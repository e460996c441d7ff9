"""The three ways to pause, and what each does to running, new and aborted requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

MODES = ("abort", "in_place", "retract")
ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


async def _pause(api: Any, mode: str) -> None:
    answer = await api.post("/pause_generation", {"mode": mode})
    assert answer.status_code == 200
    assert answer.json() == {"message": "Generation paused successfully.", "status": "ok"}


async def _resume(api: Any) -> None:
    answer = await api.post("/continue_generation", {})
    assert answer.status_code == 200
    assert answer.json() == {"message": "Generation continued successfully.", "status": "ok"}


async def test_mode_must_be_known(api: Any) -> None:
    answer = await api.post("/pause_generation", {"mode": "foo"})
    assert answer.status_code == 400
    assert answer.json()["object"] == "error"


async def test_pause_twice_and_continue_twice_is_harmless(api: Any) -> None:
    await _resume(api)
    await _pause(api, "abort")
    await _pause(api, "abort")
    await _resume(api)
    await _resume(api)
    await api.generate(2)


async def test_default_mode_is_abort(api: Any) -> None:
    async with api.running("default;") as run:
        assert (await api.post("/pause_generation", {})).status_code == 200
        assert (await run.end())["meta_info"]["finish_reason"] == ABORTED
    await _resume(api)


async def test_abort_ends_what_runs_before_it_returns(api: Any) -> None:
    async with api.running("pa;") as run:
        await _pause(api, "abort")
        last = await run.end()
        assert last["meta_info"]["finish_reason"] == ABORTED
        assert last["output_ids"]
    assert (await api.load())["num_running_reqs"] == 0
    assert (await api.post("/flush_cache")).status_code == 200


@pytest.mark.parametrize("mode", ["in_place", "retract"])
async def test_others_hold_what_runs_and_go_on_afterwards(api: Any, mode: str) -> None:
    async with api.running(f"hold-{mode};", tokens=600) as run:
        await _pause(api, mode)
        await asyncio.sleep(0.3)  # the step in flight may still give news
        seen = len(run.last["output_ids"])
        await asyncio.sleep(0.7)
        assert len(run.last["output_ids"]) == seen
        assert not run.finished.is_set()
        await _resume(api)
        last = await run.end()
    assert last["meta_info"]["finish_reason"] == {"type": "length", "length": 600}
    assert last["meta_info"]["num_retractions"] == (1 if mode == "retract" else 0)


@pytest.mark.parametrize("mode", MODES)
async def test_new_requests_are_held_and_not_counted(api: Any, mode: str) -> None:
    await _pause(api, mode)
    new = asyncio.ensure_future(api.generate(3, rid=f"new-{mode};"))
    await asyncio.sleep(0.5)
    assert not new.done()
    assert await api.counter("num_running_reqs") == await api.counter("num_queue_reqs") == 0
    await _resume(api)
    answer = await asyncio.wait_for(new, 60)
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 3}


@pytest.mark.parametrize("mode", MODES)
async def test_abort_of_a_held_request(api: Any, mode: str) -> None:
    await _pause(api, mode)
    body = {"input_ids": api.PROMPT, "rid": "held;", "sampling_params": {"max_new_tokens": 3}}
    new = asyncio.ensure_future(api.post("/generate", body))
    await asyncio.sleep(0.4)
    assert (await api.post("/abort_request", {"rid": "held;"})).status_code == 200
    await asyncio.sleep(0.2)
    assert not new.done()
    await _resume(api)
    answer = await asyncio.wait_for(new, 60)
    assert answer.status_code == (200 if api.differs.held_abort_is_forgotten else 499)


async def test_abort_while_paused_in_place_is_answered_after_continue(api: Any) -> None:
    async with api.running("ip;") as run:
        await _pause(api, "in_place")
        await api.post("/abort_request", {"rid": "ip;"})
        await asyncio.sleep(0.7)
        assert not run.finished.is_set()
        await _resume(api)
        last = await run.end()
    assert last["meta_info"]["finish_reason"] == ABORTED
    assert last["output_ids"]


IN_QUEUE = {"type": "abort", "message": "Abort in waiting queue"}


async def test_abort_of_a_retracted_stream_is_answered_at_once(api: Any) -> None:
    async with api.running("rs;") as run:
        await _pause(api, "retract")
        await asyncio.sleep(0.3)
        seen = run.last
        await api.post("/abort_request", {"rid": "rs;"})
        last = await run.end()
    assert last["meta_info"]["finish_reason"] == IN_QUEUE
    assert last["text"].startswith(seen["text"]) and seen["text"]
    if api.differs.retracted_stream_keeps_ids:
        assert last["output_ids"][: len(seen["output_ids"])] == seen["output_ids"]
        assert last["meta_info"]["completion_tokens"] == len(last["output_ids"])


async def test_abort_of_a_retracted_plain_request_loses_what_was_not_reported(api: Any) -> None:
    before = await api.counter("realtime_tokens_total", mode="decode")
    plain = asyncio.ensure_future(api.generate(api.LONG, rid="rp;"))

    async def decoding() -> bool:
        return await api.counter("realtime_tokens_total", mode="decode") > before + 3

    await api.eventually("decoded tokens", decoding)
    await _pause(api, "retract")
    await api.post("/abort_request", {"rid": "rp;"})
    answer = await asyncio.wait_for(plain, 5)
    assert answer["meta_info"]["finish_reason"] == IN_QUEUE
    assert len(answer["output_ids"]) % 50 == 0
    assert bool(answer["text"]) == bool(answer["output_ids"])
    assert "prompt_tokens" not in answer["meta_info"]


async def test_flush_while_paused_with_a_request(api: Any) -> None:
    async with api.running("fl-1;"):
        await _pause(api, "in_place")
        assert (await api.post("/flush_cache")).status_code == 400
        await _resume(api)
    await api.idle()
    async with api.running("fl-2;"):
        await _pause(api, "retract")
        status = (await api.post("/flush_cache")).status_code
        assert status == api.differs.flush_while_retracted_status
        await _resume(api)


@pytest.mark.parametrize("mode", MODES)
async def test_what_answers_while_paused(api: Any, mode: str) -> None:
    await _pause(api, mode)
    for path in ("/model_info", "/v1/models", "/v1/loads", "/metrics"):
        assert (await api.get(path)).status_code == 200, path
    assert (await api.get("/ready")).status_code == (503 if api.differs.ready else 404)
    await _resume(api)
    assert (await api.get("/ready")).status_code == (200 if api.differs.ready else 404)


@pytest.mark.parametrize("mode", ["in_place", "retract"])
async def test_loads_freeze_while_paused(api: Any, mode: str) -> None:
    async with api.running(f"fz-{mode};"):
        await _pause(api, mode)
        await asyncio.sleep(0.2)
        first = await api.load()
        await asyncio.sleep(1.3)
        assert (await api.load())["timestamp"] == first["timestamp"]
        if mode == "retract":  # in_place, the gauges keep whatever they last were
            assert await api.counter("num_running_reqs") == 0
            assert await api.counter("num_queue_reqs") == 1
        await _resume(api)
