"""Recorded SGLang exchanges, sent to the embedded engine: same status, same shapes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagle_tui.pipeline.engine.app import build_app
from eagle_tui.pipeline.engine.config import EngineConfig
from eagle_tui.pipeline.engine.engine import Engine
from eagle_tui.pipeline.engine.random_model import write_random_model
from eagle_tui.pipeline.engine.runner import ModelRunner
from eagle_tui.pipeline.engine.service import Service

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "sglang" / "0.5.23"
#: Fields of SGLang that the engine leaves out: of storage it has none, and nobody reads the other.
NOT_OURS = {"storage_prefetch_wait", "storage_staging_wait", "api_server_dispatch_finish_ts"}
#: Sections that say what the engine does not have.
NOT_OURS_EITHER = {"disaggregation", "embedding", "weight_versions"}


@pytest.fixture(scope="module")
def recorded_runner(tmp_path_factory: pytest.TempPathFactory) -> ModelRunner:
    """A model with the recorded one's context length."""
    directory = tmp_path_factory.mktemp("recorded") / "m"
    write_random_model(directory, hidden=64, layers=2, context=8192)
    return ModelRunner(directory, device="cpu", dtype="float32")


async def _client(runner: ModelRunner, **flags: Any) -> AsyncIterator[httpx.AsyncClient]:
    config = EngineConfig(model=Path(runner.facts.path), **flags)
    engine = Engine(runner, config)
    service = Service(engine, asyncio.get_running_loop())
    engine.start()
    transport = httpx.ASGITransport(build_app(service, config))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60) as http:
        yield http
    await asyncio.to_thread(engine.close, 10)
    runner.release()


@pytest.fixture
async def http(recorded_runner: ModelRunner) -> AsyncIterator[httpx.AsyncClient]:
    """Started as the recorded server was."""
    async for client in _client(recorded_runner, max_total_tokens=16384):
        yield client


def _case(name: str) -> list[dict[str, Any]]:
    exchanges: list[dict[str, Any]] = json.loads((FIXTURES / f"{name}.json").read_text())[
        "exchanges"
    ]
    return exchanges


def _ids(value: Any, vocab: int) -> Any:
    """Token ids of the recording, brought into our vocabulary; '[100] * 9000' written out."""
    if isinstance(value, str):
        token, count = re.fullmatch(r"\[(\d+)\] \* (\d+)", value).groups()  # type: ignore[union-attr]
        return [int(token)] * int(count)
    if isinstance(value, list):
        return [_ids(item, vocab) for item in value]
    return value % vocab


async def _send(
    http: httpx.AsyncClient, request: dict[str, Any], vocab: int, *, run_on: bool = False
) -> httpx.Response:
    """``run_on``: a random model may say eos where the recorded one did not."""
    body = request.get("json")
    if isinstance(body, dict) and "input_ids" in body:
        body = body | {"input_ids": _ids(body["input_ids"], vocab)}
    if run_on:
        body = body | {"sampling_params": body.get("sampling_params", {}) | {"ignore_eos": True}}
    return await http.request(
        request["method"], request["path"], json=body, headers=request.get("headers")
    )


def _shape(value: Any) -> Any:
    """Keys and types; a list counts by its first element, and null fits everything."""
    if isinstance(value, dict):
        return {
            key: _shape(item)
            for key, item in sorted(value.items())
            if key not in NOT_OURS | NOT_OURS_EITHER and item is not None
        }
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "text"


def _event_lines(text: str) -> list[Any]:
    parts = [p.removeprefix("data: ") for p in text.split("\n\n") if p]
    return [part if part == "[DONE]" else json.loads(part) for part in parts]


def _same_answer(ours: Any, recorded: Any) -> None:
    """Two answers of /generate: the same keys; the same finish reason but for its numbers."""
    if isinstance(recorded, list):
        assert len(ours) == len(recorded)
        for one, other in zip(ours, recorded, strict=True):
            _same_answer(one, other)
        return
    assert ours.keys() == recorded.keys()
    meta, theirs = ours["meta_info"], recorded["meta_info"]
    optional = {"decode_throughput"}  # only with two tokens or more
    assert meta.keys() - optional == theirs.keys() - NOT_OURS - optional
    assert _shape(meta["finish_reason"]).keys() == _shape(theirs["finish_reason"]).keys()


PLAIN = [
    (name, number)
    for name in (
        "generate_length",
        "generate_batch",
        "bad_param_400",
        "unknown_sampling_key",
        "over_context_400",
        "abort_unknown_rid",
        "pause_misc",
        "model_info",
    )
    for number, exchange in enumerate(_case(name))
    # An empty prompt inside a batch: SGLang serves it by luck, the engine refuses it.
    if exchange.get("request") and exchange.get("label") != "one item of the batch is empty"
]


@pytest.mark.parametrize(("name", "number"), PLAIN, ids=str)
async def test_plain_exchange(
    http: httpx.AsyncClient, recorded_runner: ModelRunner, name: str, number: int
) -> None:
    exchange = _case(name)[number]
    label = str(exchange.get("label"))
    if label == "content type text/plain" or "malformed" in label:
        pytest.skip("the recording does not hold the bytes that were sent")
    recorded = exchange["response"]
    answer = await _send(
        http,
        exchange["request"],
        recorded_runner.facts.vocab_size,
        run_on='"type": "length"' in json.dumps(recorded) and name == "generate_length",
    )
    assert answer.status_code == recorded["status"], answer.text
    body = answer.json() if answer.content else None
    path = exchange["request"]["path"]
    if recorded["status"] == 200 and path == "/generate":
        _same_answer(body, recorded["body"])
    elif path in ("/model_info", "/get_model_info"):
        assert _shape(body) == _shape(
            {k: v for k, v in recorded["body"].items() if k not in ("embedding", "cache")}
        )
    elif recorded["status"] == 200:
        assert _shape(body) == _shape(recorded["body"])
    else:
        assert _shape(body) == _shape(recorded["body"])
        if isinstance(recorded["body"].get("error"), dict):
            # A text has another number of tokens with another tokenizer.
            ours, theirs = (
                re.sub(r"\d+ tokens", "N tokens", b["error"]["message"])
                for b in (body, recorded["body"])
            )
            assert ours == theirs
        elif "error" in recorded["body"]:
            assert body == recorded["body"]


@pytest.mark.parametrize("number", range(len(_case("generate_stream"))))
async def test_streams(http: httpx.AsyncClient, recorded_runner: ModelRunner, number: int) -> None:
    exchange = _case("generate_stream")[number]
    answer = await _send(http, exchange["request"], recorded_runner.facts.vocab_size)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == exchange["response"]["headers"]["content-type"]
    ours = _event_lines(answer.text)
    recorded = [event["data"] for event in exchange["response"]["events"]]
    assert ours[-1] == recorded[-1] == "[DONE]"
    if "error" in recorded[0]:
        assert ours == recorded
        return
    # The first event of a recorded stream has a sending time, later ones have not.
    for one, other in ((ours[1], recorded[1]), (ours[-2], recorded[-2])):
        assert one.keys() == other.keys()
        extra = {"decode_throughput", "response_sent_to_client_ts"} | NOT_OURS
        assert one["meta_info"].keys() - extra == other["meta_info"].keys() - extra
    lengths = [len(event["output_ids"]) for event in ours[:-1]]
    assert lengths == [len(event["output_ids"]) for event in recorded[:-1]]


async def test_loads(http: httpx.AsyncClient) -> None:
    for exchange in _case("loads_idle"):
        recorded = exchange["response"]
        answer = await http.get(exchange["request"]["path"])
        if recorded["status"] != 200:
            assert answer.status_code == 400  # SGLang: 500
        elif isinstance(recorded["body"], dict):
            ours = answer.json()
            for row in (*ours["loads"], *recorded["body"]["loads"]):
                row.pop("decode_moments")  # null before the first decode step
            assert _shape(ours) == _shape(recorded["body"])


def _metric_labels(text: str) -> dict[str, set[str]]:
    """Metric name to its label names."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        match = re.match(r"(sglang:\w+)(?:\{(.*)\})? ", line)
        if match:
            labels = re.findall(r'(\w+)="', match[2] or "")
            found.setdefault(match[1], set()).update(labels)
    return found


async def test_metrics_have_sglangs_names_and_labels(http: httpx.AsyncClient) -> None:
    await http.post("/generate", json={"text": "x", "sampling_params": {"max_new_tokens": 3}})
    ours = _metric_labels((await http.get("/metrics")).text)
    recorded = _metric_labels((FIXTURES / "metrics_busy.txt").read_text())
    new = {"sglang:num_retracted_requests_total"}  # appears in SGLang with the first retraction
    assert ours.keys() - new - recorded.keys() == set()
    for name in ours.keys() & recorded.keys():
        assert ours[name] == recorded[name] - {"pid"}, name


async def test_server_info_has_the_fields_that_are_read(http: httpx.AsyncClient) -> None:
    (recorded,) = [e["response"]["body"] for e in _case("server_info") if e.get("request")][:1]
    ours = (await http.get("/server_info")).json()
    own = {"engine"}
    assert ours.keys() - own <= recorded.keys()
    assert ours["max_req_input_len"] == recorded["max_req_input_len"]
    state = recorded["internal_states"][0]
    assert ours["internal_states"][0].keys() <= state.keys()
    assert ours["internal_states"][0]["memory_usage"].keys() <= state["memory_usage"].keys()


async def test_the_key(recorded_runner: ModelRunner) -> None:
    async for http in _client(recorded_runner, max_total_tokens=4096, api_key="k1"):
        for exchange in _case("auth_api_key"):
            request, recorded = exchange["request"], exchange["response"]
            if request["path"] in ("/metrics", "/server_info") or "only" in exchange["label"]:
                continue  # recorded without --enable-metrics
            answer = await _send(http, request, 1000)
            assert answer.status_code == recorded["status"], request
            if recorded["status"] == 401:
                assert answer.json() == recorded["body"]
        info = await http.get("/server_info", headers={"Authorization": "Bearer k1"})
        assert "k1" not in info.text
