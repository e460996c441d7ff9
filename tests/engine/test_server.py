"""The process: start, signals, refusals to start, hanging clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

ENGINE = [sys.executable, "-m", "eagle_tui.pipeline.engine"]
READY = "The server is fired up and ready to roll!"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """A started engine."""

    def __init__(self, model: Path, log: Path, *flags: str) -> None:
        self.port, self.log = _free_port(), log
        self.url = f"http://127.0.0.1:{self.port}"
        began = time.monotonic()
        with log.open("wb") as sink:
            self.popen = subprocess.Popen(
                [*ENGINE, "--model", str(model), "--port", str(self.port), *flags],
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={"OMP_NUM_THREADS": "1"} | os.environ,
            )
        while READY not in log.read_text() and time.monotonic() < began + 120:
            assert self.popen.poll() is None, log.read_text()
            time.sleep(0.05)


@pytest.fixture
def launch(model_dir: Path, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start engine processes; all are killed afterwards."""
    started: list[Process] = []

    def begin(*flags: str) -> Process:
        process = Process(model_dir, tmp_path / f"engine-{len(started)}.log", *flags)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.popen.kill()
        process.popen.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_with_requests_open(
    launch: Callable[..., Process], number: signal.Signals
) -> None:
    engine = launch()
    body = {"input_ids": [20], "stream": True, "sampling_params": {"max_new_tokens": None}}
    with httpx.Client() as http, http.stream("POST", f"{engine.url}/generate", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        began = time.monotonic()
        engine.popen.send_signal(number)
        assert engine.popen.wait(60) == 0
        assert time.monotonic() - began < 15
        with pytest.raises(httpx.TransportError):
            for _ in lines:
                pass
            raise httpx.ReadError("the stream ended cleanly, but without [DONE]")


def test_start_is_quick_and_the_log_has_sglangs_markers(launch: Callable[..., Process]) -> None:
    engine = launch("--api-key", "secret-key")
    assert sum(psutil.Process(engine.popen.pid).cpu_times()[:2]) < 30  # some 4 s
    text = engine.log.read_text()
    for marker in ("server_args=", "Load weight begin.", "Load weight end. elapsed=",
                   "KV Cache is allocated. dtype: torch.float32, #tokens: ",
                   "max_total_num_tokens=", "Uvicorn running on http://"):  # fmt: skip
        assert marker in text
    assert "secret-key" not in text


def test_an_idle_process_sleeps(launch: Callable[..., Process]) -> None:
    engine = launch()
    process = psutil.Process(engine.popen.pid)
    before = sum(process.cpu_times()[:2])
    time.sleep(2)
    assert sum(process.cpu_times()[:2]) - before < 0.15


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "/nonexistent/model"], "has no config.json"),
        (["--model", "MODEL", "--reasoning-parser", "nope"], "--reasoning-parser nope"),
        (["--model", "MODEL", "--context-length", "99999"], "positions up to 1024"),
        (["--model", "MODEL", "--device", "tpu"], "--device tpu"),
        (["--model", "MODEL", "--no-such-flag"], "unrecognized arguments"),
        ([], "--model"),
    ],
)
def test_it_says_why_it_does_not_start(model_dir: Path, flags: list[str], words: str) -> None:
    command = [*ENGINE, *(str(model_dir) if flag == "MODEL" else flag for flag in flags)]
    done = subprocess.run(
        [*command, "--port", str(_free_port())],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_an_error(model_dir: Path, launch: Callable[..., Process]) -> None:
    engine = launch()
    command = [*ENGINE, "--model", str(model_dir), "--port", str(engine.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3
    assert "Address already in use" in done.stderr
    assert READY not in done.stderr


def test_many_slow_readers_do_not_hold_up_others(launch: Callable[..., Process]) -> None:
    engine = launch()
    body = {"input_ids": [20], "stream": True, "sampling_params": {"max_new_tokens": 500}}
    with httpx.Client(timeout=60) as http:
        slow = [http.stream("POST", f"{engine.url}/generate", json=body) for _ in range(8)]
        for stream in slow:
            stream.__enter__()  # headers are read, nothing else
        answer = http.post(
            f"{engine.url}/generate",
            json={"input_ids": [20], "sampling_params": {"max_new_tokens": 20}},
        )
        assert answer.status_code == 200
        for stream in slow:
            stream.__exit__(None, None, None)
