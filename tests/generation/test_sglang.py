"""Generation against real SGLang on this machine's CPU: `-m sglang`, after
`tools/sglang-cpu/install.sh`. `EAGLE_TUI_SGLANG_VERSION` names one version; else all installed."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from eagle_tui.config import load_config
from eagle_tui.pipeline.generation.runner import Runner
from eagle_tui.pipeline.generation.speech import load_speech
from eagle_tui.pipeline.tiny import MODEL_DIR
from eagle_tui.pipeline.tiny.tasks.catalog import generate
from eagle_tui.rundir import atomic, jsonl

from .killing import ROOT
from .world import World, make_world

pytestmark = [pytest.mark.sglang, pytest.mark.slow]

SERVE = ROOT / "tools" / "sglang-cpu" / "serve.sh"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eagle-tui"
KEY = "generation-key"
PROMPTS = 12


def versions() -> list[str]:
    if wanted := os.environ.get("EAGLE_TUI_SGLANG_VERSION"):
        return [wanted]
    found = [p.parent.name for p in CACHE.glob("sglang-cpu-*/.install.done")]
    return sorted(name.removeprefix("sglang-cpu-") for name in found) or ["0.5.23"]


class Server:
    """A real server; `start` and `kill` as often as wanted, on the same port."""

    def __init__(self, version: str, log: Path, *flags: str, metrics: bool = True) -> None:
        self._version, self._log, self._flags, self._metrics = version, log, flags, metrics
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        script = SERVE
        if not self._metrics:  # a flag that can only be left out
            script = self._log.with_name("serve.sh")
            script.write_text(SERVE.read_text().replace("--enable-metrics", ""))
            script.chmod(0o755)
        command = [
            str(script), "--version", self._version, "--model", str(MODEL_DIR),
            "--port", str(self.port), "--dtype", "float32", *self._flags,
        ]  # fmt: skip
        with self._log.open("ab") as sink:
            self._process = subprocess.Popen(
                command, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
            )

    async def ready(self) -> None:
        end = time.monotonic() + 300
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < end:
                assert self._process is not None and self._process.poll() is None, self._tail()
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"{self.url}/health", timeout=_seconds(30)) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.25)
        pytest.fail(self._tail())

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)
            self._process = None

    async def call(self, path: str, body: Any, key: str | None = None) -> int:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with (
            aiohttp.ClientSession(headers=headers, timeout=_seconds(30)) as session,
            session.post(self.url + path, json=body) as answer,
        ):
            await answer.read()
            return answer.status

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def _seconds(total: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total)


@contextlib.asynccontextmanager
async def serving(
    version: str, log: Path, *flags: str, metrics: bool = True
) -> AsyncIterator[Server]:
    server = Server(version, log, *flags, metrics=metrics)
    server.start()
    try:
        await server.ready()
        yield server
    finally:
        server.kill()


@pytest.fixture(params=versions())
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def real_world(root: Path, prompts: int = PROMPTS, **changes: Any) -> World:
    """A run directory with prompts of the shipped model."""
    settings = {
        "concurrency": 6, "max_new_tokens": 1500, "journal_tokens": 32, "probe": "refuse",
        "temperature": 0.0, **changes,
    }  # fmt: skip
    world = make_world(root, {"b1": 1}, generate=settings)
    speech_of = load_speech(load_config(world.run.config), world.run)
    assert speech_of.reasons
    from eagle_tui.pipeline.targets import load_tokenizer

    tokenizer = load_tokenizer(load_config(world.run.config), world.run)
    data, found = bytearray(), {}
    # Sorting takes the shipped model hundreds of tokens.
    for number, task in enumerate(itertools.islice(generate("sort", 7, "eval"), prompts)):
        talk = task.conversation()
        ids = tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=True)
        ids = list(ids["input_ids"] if hasattr(ids, "keys") else ids)
        opened = tokenizer.decode(ids).rstrip().endswith("<think>")
        row = {"id": f"r{number:03d}", "dataset": "b1", "ordinal": 0, "conversation": talk,
               "prompt_ids": ids, "opened": opened, "n_turns": 1}  # fmt: skip
        data += jsonl.encode(row)
        found[row["id"]] = ids
    atomic.write_bytes(world.run.prompts("b1"), bytes(data))
    world.prompts = {"b1": found}
    return world


def start(world: World) -> asyncio.Task[None]:
    worker = world.worker()
    speech = load_speech(worker.config, worker.run)

    async def generate() -> None:
        try:
            await Runner(worker, speech).run()
        finally:
            worker.log.close()

    return asyncio.create_task(generate())


async def until(what: str, condition: Callable[[], bool], timeout_s: float = 90.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"did not happen: {what}"
        await asyncio.sleep(0.05)


def in_flight(world: World) -> int:
    flows = world.events("flow")
    return int(flows[-1]["in_flight"].get("b1", 0)) if flows else 0


def mode(world: World) -> str:
    flows = world.events("flow")
    return str(flows[-1]["mode"]) if flows else ""


def check(world: World) -> Counter[str]:
    """Each prompt has one row; what rows say of themselves is true."""
    rows = world.rows()
    ids = [row["id"] for row in rows]
    assert sorted(ids) == sorted(world.prompts["b1"]), "lost or doubled"
    for row in rows:
        assert row["prompt_ids"] == world.prompts["b1"][row["id"]]
        assert row["usage"]["completion_tokens"] == len(row["output_ids"]) > 0
        if row["state"] == "complete":
            assert row["reasoning"] and row["content"], row
    return Counter(row["state"] for row in rows)


async def test_the_server_is_killed_and_comes_back(version: str, tmp_path: Path) -> None:
    world = real_world(tmp_path / "run", 24)
    async with serving(version, tmp_path / "log") as server:
        world.endpoint(server.url)
        run = start(world)
        for _ in range(2):
            rows = len(world.rows()) if world.run.responses("b1").exists() else 0
            await until("at work", lambda n=rows: in_flight(world) > 2 and _count(world) > n)
            await asyncio.sleep(1.0)
            server.kill()
            await until("noticed", lambda: mode(world) == "waiting" and not run.done(), 30)
            server.start()
            await server.ready()
        await asyncio.wait_for(run, 300)
    assert check(world)["complete"] >= 20


def _count(world: World) -> int:
    return len(world.rows()) if world.run.responses("b1").exists() else 0


@pytest.mark.parametrize("how", ["abort", "in_place", "retract"])
async def test_somebody_else_pauses_the_server(version: str, tmp_path: Path, how: str) -> None:
    world = real_world(tmp_path / "run", 16)
    async with serving(version, tmp_path / "log") as server:
        world.endpoint(server.url)
        run = start(world)
        await until("at work", lambda: in_flight(world) >= 4)
        await asyncio.sleep(0.5)
        assert await server.call("/pause_generation", {"mode": how}) == 200
        await asyncio.sleep(3.0)
        assert await server.call("/continue_generation", {}) == 200
        await asyncio.wait_for(run, 300)
    assert check(world)["complete"] >= 13


async def test_hold_drain_and_drop(version: str, tmp_path: Path) -> None:
    world = real_world(tmp_path / "run", 30)
    async with serving(version, tmp_path / "log") as server:
        world.endpoint(server.url)
        run = start(world)
        for pause in ("hold", "drain", "abort"):
            await until("at work", lambda: in_flight(world) >= 3 or run.done())
            asked = time.monotonic()
            world.want(pause=pause)
            await until("paused", lambda: mode(world) == "paused" or run.done(), 60)
            if pause != "drain":
                assert time.monotonic() - asked < 10
            world.want(pause="no")
        await asyncio.wait_for(run, 300)
    assert check(world)["complete"] >= 24
    assert any(row["pieces"] > 1 for row in world.rows())


async def test_somebody_else_aborts_all(version: str, tmp_path: Path) -> None:
    world = real_world(tmp_path / "run", 16)
    async with serving(version, tmp_path / "log") as server:
        world.endpoint(server.url)
        run = start(world)
        for _ in range(3):
            await until("at work", lambda: in_flight(world) >= 3 or run.done())
            await asyncio.sleep(0.5)
            await server.call("/abort_request", {"abort_all": True})
        await asyncio.wait_for(run, 300)
    assert check(world)["complete"] >= 13


async def test_full_queue_and_a_key(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENERATION_KEY", KEY)
    world = real_world(tmp_path / "run", 16, concurrency=12, adaptive=True)
    flags = ("--max-running-requests", "2", "--max-queued-requests", "1", "--api-key", KEY)
    async with serving(version, tmp_path / "log", *flags) as server:
        world.endpoint(server.url, api_key_env="GENERATION_KEY")
        run = start(world)
        await until("some answers", lambda: _count(world) >= 4)
        world.want(pause="hold")
        await until("paused", lambda: mode(world) == "paused", 60)
        world.want(pause="no")
        await asyncio.wait_for(run, 300)
    assert check(world)["complete"] >= 13
    assert not world.dead(), "a full queue is no fault of a prompt"


async def test_metrics_off_and_events_as_deltas(version: str, tmp_path: Path) -> None:
    world = real_world(tmp_path / "run", 12, adaptive=True)
    flags = ("--incremental-streaming-output",)
    async with serving(version, tmp_path / "log", *flags, metrics=False) as server:
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics") as no:
            assert no.status == 404
        world.endpoint(server.url)
        run = start(world)
        await until("at work", lambda: in_flight(world) >= 3)
        await asyncio.sleep(1.0)
        world.want(pause="hold")
        await until("paused", lambda: mode(world) == "paused", 60)
        world.want(pause="no")
        await asyncio.wait_for(run, 300)
    assert check(world)["complete"] >= 10


async def test_held_answers_are_the_same_as_whole_ones(version: str, tmp_path: Path) -> None:
    """Greedy, with answers cut and continued at random moments. The numerics of batches may tip a
    near tie, so a small share may differ."""
    whole, held = real_world(tmp_path / "whole", 16), real_world(tmp_path / "held", 16)
    async with serving(version, tmp_path / "log") as server:
        whole.endpoint(server.url)
        await asyncio.wait_for(start(whole), 300)
        held.endpoint(server.url)
        run = start(held)
        for _ in range(4):
            await until("at work", lambda: in_flight(held) >= 3 or run.done())
            await asyncio.sleep(0.7)
            held.want(pause="hold")
            await until("paused", lambda: mode(held) == "paused" or run.done(), 60)
            held.want(pause="no")
        await asyncio.wait_for(run, 300)
    expected = {row["id"]: row["output_ids"] for row in whole.rows()}
    pieces = [row for row in held.rows() if row["pieces"] > 1]
    assert len(pieces) >= 3
    same = sum(row["output_ids"] == expected[row["id"]] for row in pieces)
    print(json.dumps({"version": version, "in pieces": len(pieces), "identical": same}))
    assert same >= 0.7 * len(pieces)
