"""What is refused, with which status and in which body shape."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest


@pytest.mark.parametrize(
    ("params", "begins"),
    [
        ({"temperature": -1}, "temperature must be a non-negative finite number, got -1"),
        ({"top_p": 2}, "top_p must be in (0, 1], got 2"),
        ({"top_k": 0}, "top_k must be -1 (disable) or at least 1, got 0"),
        ({"min_p": 2}, "min_p must be in [0, 1], got 2"),
        ({"max_new_tokens": -1}, "max_new_tokens must be at least 0, got -1"),
        ({"frequency_penalty": 3}, "frequency_penalty must be in [-2, 2], got 3"),
        ({"presence_penalty": 3}, "presence_penalty must be in [-2, 2], got 3"),
        ({"json_schema": "{}"}, "Grammar-based generation"),
        ({"max_new_tokens": 2, "min_new_tokens": 3}, "min_new_tokens must be in [0, max_new"),
    ],
)
async def test_values_out_of_range(api: Any, params: dict[str, Any], begins: str) -> None:
    answer = await api.post("/generate", {"text": "x", "sampling_params": params})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(begins)


@pytest.mark.parametrize(
    "params", [{"max_tokens": 5}, {"seed": 7}, {"max_new_tokens": "abc"}, {"stop": 5}]
)
async def test_unknown_keys_and_wrong_types(api: Any, params: dict[str, Any]) -> None:
    answer = await api.post("/generate", {"text": "x", "sampling_params": params})
    assert answer.status_code == api.differs.schema_error_status
    if answer.status_code == 400:
        assert isinstance(answer.json()["error"], str)


async def test_unknown_top_level_keys_are_ignored(api: Any) -> None:
    await api.generate(2, no_such_field=1, priority=3)


async def test_no_prompt(api: Any) -> None:
    answer = await api.post("/generate", {"sampling_params": {"max_new_tokens": 2}})
    assert answer.status_code == 400
    assert "should be provided" in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [{"text": 5}, {"text": "x", "rid": 17}])
async def test_wrong_types_of_the_body(api: Any, body: dict[str, Any]) -> None:
    answer = await api.post("/generate", body)
    assert answer.status_code == 400
    assert answer.json().keys() >= {"object", "message", "type", "code"}
    assert (answer.json()["object"], answer.json()["code"]) == ("error", 400)


async def test_malformed_json(api: Any) -> None:
    answer = await api.http.post(
        "/generate", content=b'{"text": ', headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["object"] == "error"


async def test_a_body_that_is_not_declared_as_json(api: Any) -> None:
    answer = await api.http.post(
        "/generate", content=b'{"text": "x"}', headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 400
    assert answer.json()["object"] == "error"


async def test_empty_input_ids(api: Any) -> None:
    answer = await api.post("/generate", {"input_ids": []})
    assert answer.status_code == 400
    assert "input_ids cannot be empty" in answer.json()["error"]["message"]


async def test_empty_text(api: Any) -> None:
    if api.differs.empty_prompt_status is None:
        pytest.skip("an empty text kills this version")
    answer = await api.post("/generate", {"text": "", "sampling_params": {"max_new_tokens": 1}})
    assert answer.status_code == api.differs.empty_prompt_status
    assert "texts cannot be empty" in answer.json()["error"]["message"]


@pytest.mark.parametrize("token", [99_999_999, -1])
async def test_token_outside_the_vocabulary(api: Any, token: int) -> None:
    if api.differs.foreign_token_status is None:
        pytest.skip("an id outside the vocabulary kills this version")
    answer = await api.post("/generate", {"input_ids": [20, token]})
    assert answer.status_code == api.differs.foreign_token_status
    assert str(token) in answer.json()["error"]["message"]


async def test_over_the_context(api: Any) -> None:
    context = (await api.get("/v1/models")).json()["data"][0]["max_model_len"]
    for length, wanted, message in (
        (context + 800, 4, f"({context + 800} tokens) is longer than the model's context"),
        (context, 4, f"({context} tokens) is longer than the model's context"),
        (context - 1, 4, f"total of {context + 3} tokens: {context - 1} tokens from the input"),
        (4, context, f"total of {context + 4} tokens: 4 tokens from the input"),
    ):
        body = {"input_ids": [20] * length, "sampling_params": {"max_new_tokens": wanted}}
        answer = await api.post("/generate", body)
        assert answer.status_code == 400
        assert message in answer.json()["error"]["message"]


async def test_duplicate_rid_while_the_first_lives(api: Any) -> None:
    async with api.running("dup;") as first:
        body = {"input_ids": api.PROMPT, "rid": "dup;", "sampling_params": {"max_new_tokens": 2}}
        answer = await api.post("/generate", body)
        assert answer.status_code == 400
        assert answer.json() == {"error": {"message": "Duplicate request ID detected: dup;"}}
        assert not first.finished.is_set()
    batch = await api.post("/generate", {"text": ["a", "b"], "rid": ["same", "same"]})
    assert batch.status_code == 400
    assert "Duplicate request IDs detected within the request" in batch.text


async def test_a_rid_may_come_again_after_its_end(api: Any) -> None:
    for _ in range(2):
        answer = await api.generate(2, rid="again;")
        assert answer["meta_info"]["id"] == "again;"


async def test_unknown_paths_and_methods(api: Any) -> None:
    missing = await api.get("/nope")
    assert (missing.status_code, missing.json()) == (404, {"detail": "Not Found"})
    wrong = await api.get("/abort_request")
    assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})


@pytest.mark.parametrize(
    "path", ["/generate", "/abort_request", "/pause_generation", "/continue_generation"]
)
async def test_a_body_is_required(api: Any, path: str) -> None:
    answer = await api.post(path)
    assert answer.status_code == 400
    assert answer.json()["object"] == "error"


async def test_a_prompt_over_the_pool(narrow: Any) -> None:
    body = {"input_ids": [20] * 1050, "sampling_params": {"max_new_tokens": 4}}
    answer = await narrow.post("/generate", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(
        "Input length (1050 tokens) exceeds the maximum allowed length (994 tokens)"
    )


async def test_a_small_pool_cuts_the_length_without_a_warning(narrow: Any) -> None:
    cut = await narrow.generate(100, input_ids=[20] * 950)
    assert cut["meta_info"]["finish_reason"] == {"type": "length", "length": 48}
    whole = await narrow.generate(4, input_ids=[20] * 993)
    assert whole["meta_info"]["finish_reason"] == {"type": "length", "length": 4}


async def test_the_key(narrow: Any) -> None:
    async with httpx.AsyncClient(base_url=narrow.server.url) as stranger:
        for path in ("/model_info", "/v1/loads", "/v1/models", "/ping", "/nope"):
            answer = await stranger.get(path)
            assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"}), path
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-API-Key": narrow.server.key}):
            answer = await stranger.post("/generate", json={"text": "x"}, headers=headers)
            assert answer.status_code == 401
        for path in ("/health", "/metrics"):
            assert (await stranger.get(path)).status_code == 200, path
    await narrow.generate(1)


async def test_a_full_queue(narrow: Any) -> None:
    async with narrow.running("run;", tokens=950):
        waiting = asyncio.ensure_future(narrow.generate(2, rid="queued;"))
        # No gauge of SGLang's tells at once that it waits; requests are taken in order, though.
        await asyncio.sleep(0.05)
        few = {"max_new_tokens": 2}
        body = {"input_ids": [20], "rid": "third;", "sampling_params": few}
        refused = await narrow.post("/generate", body)
        assert refused.status_code == 503
        assert refused.json() == {
            "object": "error",
            "message": "The request queue is full.",
            "type": "503",
            "param": None,
            "code": 503,
        }
        (event,) = [event async for event in narrow.events(**body | {"rid": "fourth;"})]
        await narrow.post("/abort_request", {"rid": "queued;"})
        answer = await waiting
        reason = event["meta_info"]["finish_reason"]
        assert (reason["type"], reason["status_code"]) == ("abort", 503)
        assert event["output_ids"] == []
        assert answer["meta_info"]["finish_reason"] == {
            "type": "abort",
            "message": "Abort in waiting queue",
        }
        assert (answer["text"], answer["output_ids"]) == ("", [])
        assert "prompt_tokens" not in answer["meta_info"]
