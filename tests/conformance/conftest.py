"""The servers that the conformance suite runs against.

- default: the embedded engine, started here;
- ``-m sglang``: every real SGLang installed by ``tools/sglang-cpu/install.sh``, or the one named
  by ``EAGLE_TUI_SGLANG_VERSION``;
- ``EAGLE_TUI_CONFORMANCE_URL=http://…``: a server that runs already; add
  ``EAGLE_TUI_CONFORMANCE_VERSION``, a key of `DIFFERENCES`, when it is not 0.5.23. Tests that need
  a server with special limits are skipped then.

What differs between the servers stands in `DIFFERENCES` and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "sglang-cpu"
SHIPPED_MODEL = ROOT / "pipeline" / "tiny" / "model"
SGLANG_VERSIONS = ("0.5.23", "0.5.17")
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 40.0
TIGHT_KEY = "conformance-key"


@dataclasses.dataclass(frozen=True)
class Differences:
    """What a kind of server does its own way. None: do not ask, it would not survive."""

    schema_error_status: int = 400  # unknown key or wrong type in sampling_params
    schema_error_in_stream_status: int | None = 400  # None: a 200 that breaks off
    ready: bool = True
    empty_prompt_status: int | None = None
    foreign_token_status: int | None = None
    flush_while_retracted_status: int = 200
    held_abort_is_forgotten: bool = True  # else: answered with 499
    unknown_include_status: int = 500
    retracted_stream_keeps_ids: bool = True  # else: the last event has only the newest of them
    seeds: bool = False  # sampling_seed alone makes a request repeatable


DIFFERENCES = {
    "engine": Differences(
        empty_prompt_status=400,
        foreign_token_status=400,
        unknown_include_status=400,
        seeds=True,
    ),
    "0.5.23": Differences(),
    "0.5.17": Differences(
        schema_error_status=500,
        schema_error_in_stream_status=None,
        ready=False,
        empty_prompt_status=400,
        flush_while_retracted_status=400,
        held_abort_is_forgotten=False,
        retracted_stream_keeps_ids=False,
    ),
}


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    kind: str
    key: str | None = None
    model: Path | None = None  # None: started by somebody else, with flags of his own

    @property
    def differs(self) -> Differences:
        """Its row of the table."""
        return DIFFERENCES[self.kind]


def _installed(version: str) -> bool:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (cache / "eagle-tui" / f"sglang-cpu-{version}" / ".install.done").is_file()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the servers: see the module's docstring."""
    if "kind" not in metafunc.fixturenames:
        return
    expression = metafunc.config.option.markexpr
    if os.environ.get("EAGLE_TUI_CONFORMANCE_URL"):
        kinds = [pytest.param("url")]
    elif "sglang" in expression and "not sglang" not in expression:
        wanted = os.environ.get("EAGLE_TUI_SGLANG_VERSION")
        found = [version for version in SGLANG_VERSIONS if _installed(version)]
        versions = [wanted] if wanted else found or [SGLANG_VERSIONS[0]]
        kinds = [pytest.param(version, marks=pytest.mark.sglang) for version in versions]
    else:
        kinds = [pytest.param("engine")]
    metafunc.parametrize("kind", kinds, scope="session", indirect=True)


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> str:
    """``engine``, an SGLang version, or ``url``."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model when it is there, else a random one."""
    if (SHIPPED_MODEL / "config.json").is_file():
        return SHIPPED_MODEL
    from eagle_tui.pipeline.engine.random_model import write_random_model

    return write_random_model(tmp_path_factory.mktemp("model") / "random", context=4096, layers=4)


def _command(kind: str, model: Path, port: int, flags: list[str]) -> list[str]:
    if kind == "engine":
        start = [sys.executable, "-m", "eagle_tui.pipeline.engine", "--model", str(model)]
    else:
        if not _installed(kind):
            pytest.fail(f"SGLang {kind} is not installed: run {TOOLS / 'install.sh'}")
        start = [str(TOOLS / "serve.sh"), "--version", kind, "--model", str(model)]
    return [*start, "--port", str(port), "--dtype", "float32", *flags]


def _wait_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/health", timeout=30).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.25)
    tail = log.read_text(errors="replace")[-4000:]
    pytest.fail(f"the server did not become healthy (exit code {process.poll()}):\n{tail}")


def _serve(kind: str, model: Path, scratch: Path, flags: list[str]) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = scratch / f"server-{kind}-{port}.log"
    environment = {"OMP_NUM_THREADS": "1"} | os.environ
    with log.open("wb") as sink:
        process = subprocess.Popen(
            _command(kind, model, port, flags),
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_healthy(process, url, log)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_TIMEOUT_S)


@pytest.fixture(scope="session")
def server(kind: str, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with room: nothing is refused for want of it."""
    if kind == "url":
        version = os.environ.get("EAGLE_TUI_CONFORMANCE_VERSION", "0.5.23")
        yield Server(os.environ["EAGLE_TUI_CONFORMANCE_URL"].rstrip("/"), version)
        return
    scratch = tmp_path_factory.mktemp("server")
    for url in _serve(kind, model, scratch, ["--max-total-tokens", "16384"]):
        yield Server(url, kind, model=model)


@pytest.fixture(scope="session")
def tight(kind: str, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One row, one place in the queue, a pool of 1000 tokens, a key, a reasoning parser."""
    if kind == "url":
        pytest.skip("needs a server of its own, with narrow limits")
    flags = [
        *("--max-total-tokens", "1000", "--max-running-requests", "1"),
        *("--max-queued-requests", "1", "--reasoning-parser", "qwen3", "--api-key", TIGHT_KEY),
    ]
    for url in _serve(kind, model, tmp_path_factory.mktemp("tight"), flags):
        yield Server(url, kind, TIGHT_KEY, model)


class Running:
    """A streamed request that is known to run: its first event was seen."""

    def __init__(self, api: Api, rid: str, tokens: int) -> None:
        self._api, self.rid, self._tokens = api, rid, tokens
        self.last: dict[str, Any] = {}
        self.started = asyncio.Event()
        self.finished = asyncio.Event()

    async def _read(self) -> None:
        params = {"max_new_tokens": self._tokens, "temperature": 0, "ignore_eos": True}
        body = {
            "input_ids": Api.PROMPT,
            "rid": self.rid,
            "sampling_params": params | {"stream_interval": 4},
        }
        async for event in self._api.events(**body):
            self.last = event
            self.started.set()
        self.finished.set()

    async def __aenter__(self) -> Running:
        self._task = asyncio.ensure_future(self._read())
        await asyncio.wait_for(self.started.wait(), 60)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._api.http.post("/abort_request", json={"rid": self.rid})
        if exception[0] is not None:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def end(self, timeout: float = 60.0) -> dict[str, Any]:
        """Its last event."""
        await asyncio.wait_for(self.finished.wait(), timeout)
        return self.last


class Api:
    """Calls and waits that most tests need."""

    PROMPT = (20, 30, 40, 50, 60)
    #: Long enough to be seen running on any server, short enough for any context.
    LONG = 1500

    def __init__(self, server: Server, http: httpx.AsyncClient) -> None:
        self.server, self.http = server, http
        self.differs = server.differs

    async def post(self, path: str, body: object = None) -> httpx.Response:
        """POST JSON; no body at all when None."""
        return await self.http.post(path, json=body)

    async def get(self, path: str) -> httpx.Response:
        """GET."""
        return await self.http.get(path)

    async def generate(self, max_new_tokens: int | None = 8, **body: Any) -> Any:
        """A successful plain answer: greedy and to its length, unless told otherwise."""
        body.setdefault("input_ids", self.PROMPT)
        body["sampling_params"] = {
            "max_new_tokens": max_new_tokens,
            "temperature": 0,
            "ignore_eos": True,
        } | body.get("sampling_params", {})
        answer = await self.post("/generate", {k: v for k, v in body.items() if v is not None})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def events(self, **body: Any) -> AsyncIterator[Any]:
        """Decoded events of a stream, without the closing ``[DONE]``, which must be there."""
        done = False
        async with self.http.stream("POST", "/generate", json=body | {"stream": True}) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if not line:
                    continue
                assert line.startswith("data: ") and not done
                data = line.removeprefix("data: ")
                done = data == "[DONE]"
                if not done:
                    yield json.loads(data)
        assert done, "the stream ended without [DONE]"

    def running(self, rid: str, tokens: int = LONG) -> Running:
        """``async with``: a request that runs; it is aborted at the end of the block."""
        return Running(self, rid, tokens)

    async def eventually(
        self, what: str, question: Callable[[], Awaitable[bool]], timeout: float = 30.0
    ) -> None:
        """Wait until ``question`` says yes."""
        deadline = time.monotonic() + timeout
        while not await question():
            assert time.monotonic() < deadline, f"not seen within {timeout} s: {what}"
            await asyncio.sleep(0.05)

    async def counter(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples with these labels."""
        total = 0.0
        for line in (await self.get("/metrics")).text.splitlines():
            if line.startswith(f"sglang:{name}{{"):
                head, _, value = line.rpartition(" ")
                if all(f'{key}="{text}"' in head for key, text in labels.items()):
                    total += float(value)
        return total

    async def load(self) -> dict[str, Any]:
        """The first rank's load."""
        row: dict[str, Any] = (await self.get("/v1/loads")).json()["loads"][0]
        return row

    async def idle(self) -> None:
        """Wait until nothing runs or waits."""

        async def nothing_left() -> bool:
            return (await self.post("/flush_cache")).status_code == 200

        await self.eventually("an idle server", nothing_left)


@contextlib.asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[Api]:
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    limits = httpx.Limits(max_connections=100, keepalive_expiry=2)  # the server's is 5 s

    def client() -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=server.url, timeout=120.0, headers=headers, limits=limits)

    async with client() as http:
        yield Api(server, http)
    # Whatever a failed test left behind must not reach the next one. New connections: SGLang
    # closes the one on which it answered a 500.
    async with client() as http:
        api = Api(server, http)
        await api.post("/continue_generation", {})
        await api.post("/abort_request", {"abort_all": True})
        await api.idle()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[Api]:
    """The roomy server, idle before and after."""
    async with _connected(server) as api:
        yield api


@pytest.fixture
async def narrow(tight: Server) -> AsyncIterator[Api]:
    """The tight server, idle before and after."""
    async with _connected(tight) as api:
        yield api
