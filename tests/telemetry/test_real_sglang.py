"""What is read of logs and of `--help`, against every real SGLang that is installed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from eagle_tui.clock import SystemClock
from eagle_tui.supervisor.server import resolved
from eagle_tui.supervisor.tuning.constraints import HostFacts, check
from eagle_tui.supervisor.tuning.flags import read_help
from eagle_tui.supervisor.tuning.settings import SETTINGS
from eagle_tui.telemetry.diagnosis import diagnose
from eagle_tui.telemetry.server_log import ServerLog
from eagle_tui.telemetry.sglang import ServerPoller

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "sglang-cpu"
MODEL = ROOT / "pipeline" / "tiny" / "model"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "eagle-tui"
WANTED = os.environ.get("EAGLE_TUI_SGLANG_VERSION")
VERSIONS = [
    v
    for v in ((WANTED,) if WANTED else ("0.5.23", "0.5.17"))
    if (CACHE / f"sglang-cpu-{v}" / ".install.done").exists()
]

pytestmark = [
    pytest.mark.sglang,
    pytest.mark.skipif(not VERSIONS, reason="no real SGLang is installed"),
]


def command(version: str, port: int) -> list[str]:
    serve = [str(TOOLS / "serve.sh"), "--version", version, "--model", str(MODEL)]
    return [*serve, "--port", str(port), "--dtype", "float32"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def started(
    version: str, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str, ServerLog]]:
    """A server that has just been started, and its log, followed."""
    port, path = free_port(), tmp_path / "log"
    with path.open("wb") as sink:
        process = subprocess.Popen(
            command(version, port), stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process, f"http://127.0.0.1:{port}", ServerLog(path, SystemClock())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)


async def test_its_help_is_read_and_refuses_what_it_does_not_know(version: str) -> None:
    argv = command(version, free_port())
    flags = await read_help(argv)
    assert all(flags.get(s.key) for s in SETTINGS)
    changes: dict[str, str | None] = {"no-such-flag": "1", "mem-fraction-static": "0.4"}
    assert [p.key for p in check(changes, argv, flags, HostFacts()) if p.fatal] == ["no-such-flag"]


async def test_a_start_is_followed_and_the_load_is_told_by_http_and_by_the_log_alike(
    started: tuple[subprocess.Popen[bytes], str, ServerLog],
) -> None:
    process, url, log = started
    seen: list[str] = []
    async with httpx.AsyncClient(timeout=60.0) as http:
        poller = ServerPoller(http, url, None, SystemClock(), log)
        end = time.monotonic() + 300.0
        while await poller.healthy():
            assert process.poll() is None and time.monotonic() < end, log.tail[-20:]
            log.poll()
            if log.stage and log.stage.name not in seen:
                seen.append(log.stage.name)
            await asyncio.sleep(0.1)
        log.poll()
        assert log.stage is not None and log.stage.name == "ready"
        order = ["imports", "weights", "kv_pool", "warmup"]
        assert [name for name in order if name in seen] == [n for n in seen if n in order]
        assert log.kv_tokens == 16384
        told = await resolved.read(http, url, None)
        assert told.pool == 16384 and told.flags["max-total-tokens"] == "16384"
        assert told.footprint is not None and 0 < told.footprint.kv < told.footprint.free_before
        params = {"max_new_tokens": 400, "ignore_eos": True, "temperature": 0}
        body = {"input_ids": [20, 30, 40], "sampling_params": params}
        work = [asyncio.create_task(http.post(f"{url}/generate", json=body)) for _ in range(3)]
        best = 0.0
        while not all(task.done() for task in work):
            await asyncio.sleep(0.5)
            log.poll()
            assert await poller.poll() == ""
            assert poller.last is not None
            best = max(best, poller.last.tok_s or 0.0)
        assert all(task.result().status_code == 200 for task in work)
    assert best > 0 and log.load is not None and log.load.tok_s
    assert log.load.running is not None and 1 <= log.load.running <= 3
    assert log.dying == "" and diagnose(log.tail, "exit code 0") is None


def test_a_flag_that_does_not_exist_is_the_diagnosis(version: str) -> None:
    done = subprocess.run(
        [*command(version, free_port()), "--no-such-flag", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
        check=False,
    )
    lines = done.stdout.decode(errors="replace").split("\n")
    found = diagnose(lines, f"exit code {done.returncode}")
    assert found is not None and found.rule == "bad-flag" and found.permanent
    assert "--no-such-flag" in found.sentence


async def test_a_killed_scheduler_is_seen_in_the_log_and_named(
    started: tuple[subprocess.Popen[bytes], str, ServerLog],
) -> None:
    process, url, log = started
    async with httpx.AsyncClient(timeout=60.0) as http:
        poller = ServerPoller(http, url, None, SystemClock(), log)
        end = time.monotonic() + 300.0
        while await poller.healthy():
            assert process.poll() is None and time.monotonic() < end
            await asyncio.sleep(0.2)
    children = psutil.Process(process.pid).children(recursive=True)
    (scheduler,) = [c for c in children if "scheduler" in " ".join(c.cmdline())]
    scheduler.kill()
    end = time.monotonic() + 60.0
    while not log.dying:
        assert time.monotonic() < end, log.tail[-10:]
        await asyncio.sleep(0.1)
        log.poll()
    found = diagnose(log.tail, "killed by SIGKILL")
    assert found is not None and found.rule == "child-killed"
    assert f"scheduler process (pid {scheduler.pid})" in found.sentence
