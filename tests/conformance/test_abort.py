"""Aborts, and clients that hang up."""

from __future__ import annotations

import asyncio
from typing import Any

#: Nearly the context of the models in use.
LONGEST = 4000
ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


async def test_abort_calls_say_nothing(api: Any) -> None:
    for body in ({"rid": "does-not-exist"}, {}, {"rid": ""}):
        answer = await api.post("/abort_request", body)
        assert (answer.status_code, answer.content) == (200, b"")
    listed = await api.post("/abort_request", {"rid": ["a", "b"]})
    assert listed.status_code == 400
    assert listed.json()["object"] == "error"


async def test_abort_of_a_running_stream(api: Any) -> None:
    async with api.running("ab-stream;") as run:
        await api.post("/abort_request", {"rid": "ab-stream;"})
        last = await run.end()
    assert last["meta_info"]["finish_reason"] == ABORTED
    assert 0 < last["meta_info"]["completion_tokens"] == len(last["output_ids"]) < api.LONG


async def _running_plain(api: Any, rid: str, tokens: int) -> asyncio.Task[Any]:
    """A plain request that is seen to run: tokens are being decoded and nobody else is there."""
    before = await api.counter("realtime_tokens_total", mode="decode")
    task = asyncio.ensure_future(api.generate(tokens, rid=rid))

    async def decoding() -> bool:
        return await api.counter("realtime_tokens_total", mode="decode") > before + 3

    await api.eventually("decoded tokens", decoding)
    return task


async def test_abort_of_a_running_plain_request_is_a_200(api: Any) -> None:
    task = await _running_plain(api, "ab-plain;", api.LONG)
    await api.post("/abort_request", {"rid": "ab-plain;"})
    answer = await task
    assert answer["meta_info"]["finish_reason"] == ABORTED
    assert 0 < len(answer["output_ids"]) < api.LONG
    assert answer["text"]
    assert answer["meta_info"]["prompt_tokens"] == len(api.PROMPT)


async def test_abort_needs_an_exact_id_and_then_takes_prefixes(api: Any) -> None:
    async with api.running("p-1") as one, api.running("p-10") as ten, api.running("q-1") as other:
        await api.post("/abort_request", {"rid": "p-"})
        await asyncio.sleep(0.2)
        assert not one.finished.is_set() and not ten.finished.is_set()
        await api.post("/abort_request", {"rid": "p-1"})
        for run in (one, ten):
            assert (await run.end())["meta_info"]["finish_reason"] == ABORTED
        assert not other.finished.is_set()


async def test_abort_of_one_member_of_a_batch(api: Any) -> None:
    before = await api.counter("realtime_tokens_total", mode="decode")
    task = asyncio.ensure_future(api.generate(400, input_ids=[[20, 30], [40, 50]], rid="bt"))

    async def decoding() -> bool:
        return await api.counter("realtime_tokens_total", mode="decode") > before + 3

    await api.eventually("decoded tokens", decoding)
    await api.post("/abort_request", {"rid": "bt"})  # nobody has this id
    await api.post("/abort_request", {"rid": "bt_0"})
    first, second = await task
    assert first["meta_info"]["finish_reason"] == ABORTED
    assert second["meta_info"]["finish_reason"] == {"type": "length", "length": 400}


async def test_abort_all(api: Any) -> None:
    async with api.running("all-0;") as one, api.running("all-1;") as two:
        await api.post("/abort_request", {"abort_all": True})
        for run in (one, two):
            assert (await run.end())["meta_info"]["finish_reason"] == ABORTED


async def _wait_until_it_stops(api: Any, began: float) -> None:
    """The server becomes idle long before the request would have been done."""
    await api.idle()
    spent = await api.counter("realtime_tokens_total", mode="decode") - began
    assert spent < LONGEST - 20


async def test_a_plain_client_that_hangs_up(api: Any) -> None:
    """SGLang looks for it every 4 s, so the request has to be long."""
    began = await api.counter("realtime_tokens_total", mode="decode")
    task = await _running_plain(api, "gone-plain;", LONGEST)
    task.cancel()
    await _wait_until_it_stops(api, began)


async def test_a_streaming_client_that_hangs_up(api: Any) -> None:
    began = await api.counter("realtime_tokens_total", mode="decode")
    params = {"max_new_tokens": LONGEST, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": api.PROMPT, "stream": True, "sampling_params": params}
    async with api.http.stream("POST", "/generate", json=body) as answer:
        async for _ in answer.aiter_lines():
            break
    await _wait_until_it_stops(api, began)
