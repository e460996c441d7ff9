"""Server-sent events of /generate."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


def _params(**more: Any) -> dict[str, Any]:
    return {"max_new_tokens": 10, "temperature": 0, "ignore_eos": True} | more


async def test_events_are_cumulative_and_the_last_one_finishes(api: Any) -> None:
    body = {"input_ids": api.PROMPT, "rid": "st-1;", "sampling_params": _params()}
    events = [event async for event in api.events(**body)]
    plain = await api.generate(10)
    assert [len(event["output_ids"]) for event in events] == sorted(
        {len(event["output_ids"]) for event in events}
    )
    for event in events:
        assert event["meta_info"]["id"] == "st-1;"
        assert plain["output_ids"][: len(event["output_ids"])] == event["output_ids"]
        assert plain["text"].startswith(event["text"])
        assert event["meta_info"]["completion_tokens"] == len(event["output_ids"])
    assert all(event["meta_info"]["finish_reason"] is None for event in events[:-1])
    assert all("e2e_latency" not in event["meta_info"] for event in events[:-1])
    last = events[-1]
    assert last["meta_info"]["finish_reason"] == {"type": "length", "length": 10}
    assert last["meta_info"]["e2e_latency"] > 0
    assert (last["text"], last["output_ids"]) == (plain["text"], plain["output_ids"])


async def test_stream_interval(api: Any) -> None:
    params = _params(max_new_tokens=12, stream_interval=4)
    body = {"input_ids": api.PROMPT, "sampling_params": params}
    events = [event async for event in api.events(**body)]
    lengths = [len(event["output_ids"]) for event in events]
    # SGLang joins events that a slow client has not taken yet.
    assert set(lengths) <= {1, 5, 9, 12}
    assert lengths == sorted(set(lengths)) and lengths[-1] == 12


async def test_a_batch_interleaves_with_an_index(api: Any) -> None:
    body = {"input_ids": [[20, 30], [40, 50, 60]], "sampling_params": _params(max_new_tokens=6)}
    last: dict[int, Any] = {}
    async for event in api.events(**body):
        last[event["index"]] = event
    assert sorted(last) == [0, 1]
    assert [last[i]["meta_info"]["prompt_tokens"] for i in (0, 1)] == [2, 3]
    assert all(event["meta_info"]["finish_reason"]["length"] == 6 for event in last.values())


async def test_a_refused_value_is_an_event_after_a_200(api: Any) -> None:
    body = {"input_ids": api.PROMPT, "sampling_params": _params(temperature=-1)}
    (event,) = [event async for event in api.events(**body)]
    assert event["error"]["code"] == 400
    assert event["error"]["retryable"] is False
    assert event["error"]["message"].startswith("temperature must be")


async def test_a_prompt_over_the_context_is_an_event_too(api: Any) -> None:
    context = (await api.get("/v1/models")).json()["data"][0]["max_model_len"]
    body = {"input_ids": [20] * (context + 5), "sampling_params": _params()}
    (event,) = [event async for event in api.events(**body)]
    assert event["error"]["code"] == 400
    assert "longer than the model's context length" in event["error"]["message"]


async def test_a_wrong_schema_is_a_plain_error(api: Any) -> None:
    body = {"input_ids": api.PROMPT, "stream": True, "sampling_params": {"max_tokens": 5}}
    if api.differs.schema_error_in_stream_status is None:
        with pytest.raises(httpx.RemoteProtocolError):
            await api.post("/generate", body)
        return
    answer = await api.post("/generate", body)
    assert answer.status_code == api.differs.schema_error_in_stream_status


async def test_stop_string_in_a_stream(api: Any) -> None:
    text = (await api.generate(40))["text"]
    stop = text[len(text) // 2 :][:3]
    body = {
        "input_ids": api.PROMPT,
        "sampling_params": _params(max_new_tokens=40, stop=[stop]),
    }
    events = [event async for event in api.events(**body)]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert events[-1]["text"] == text[: text.index(stop)]
