"""The screen leaves when its terminal is gone: in a real pseudo-terminal, as its own process."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

DATA = Path(__file__).parent / "data"
SCRIPT = """
import signal, sys
from pathlib import Path
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.recorded import RecordedClient
if sys.argv[2] == "ignore-hup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
EagleApp(RecordedClient.load(Path(sys.argv[1]))).run()
"""
START_S = 30.0


@contextmanager
def screen(mode: str = "plain") -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program in a terminal of 100x30; yields it and the terminal's other end when it drew."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(DATA / "kimi.json"), mode],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(slave)
    try:
        seen = b""
        deadline = time.monotonic() + START_S
        while b"kimi-k25-eagle3" not in seen:
            assert time.monotonic() < deadline, seen[-2000:]
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536)
        yield process, master
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def drain(master: int) -> bytes:
    """What the program writes until it ends."""
    out = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:  # EIO: the other end is closed
            return out
        if not data:
            return out
        out += data


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_in_order(number: signal.Signals) -> None:
    with screen() as (process, master):
        process.send_signal(number)
        out = drain(master)
        assert process.wait(timeout=10) == 0
        assert b"\x1b[?1049l" in out, "the terminal was given back"
        os.close(master)


@pytest.mark.parametrize("mode", ["plain", "ignore-hup"])
def test_a_terminal_that_is_gone_ends_it_without_spinning(mode: str) -> None:
    with screen(mode) as (process, master):
        watched = psutil.Process(process.pid)
        before = sum(watched.cpu_times()[:2])
        os.close(master)
        spent = before
        deadline = time.monotonic() + 10
        while process.poll() is None:
            assert time.monotonic() < deadline, "still there without a terminal"
            try:
                spent = sum(watched.cpu_times()[:2])
            except psutil.NoSuchProcess:
                break
            time.sleep(0.05)
        assert process.wait(timeout=1) in (0, -signal.SIGHUP)
        assert spent - before < 2.5


def test_q_leaves_and_gives_the_terminal_back() -> None:
    with screen() as (process, master):
        os.write(master, b"q")
        out = drain(master)
        assert process.wait(timeout=10) == 0
        assert b"\x1b[?1049l" in out and b"\x1b[?25h" in out
        os.close(master)


def test_the_screenshot_tool_draws_a_scene(tmp_path: Path) -> None:
    tool = Path(__file__).parents[2] / "tools" / "screenshot.py"
    out = tmp_path / "screen.svg"
    command = [sys.executable, str(tool), str(DATA / "laptop.json"), str(out), "--size", "100x30"]
    subprocess.run(command, check=True, timeout=60)
    assert ">demo</text>" in out.read_text()
    command[2] = str(tmp_path / "none.json")
    assert subprocess.run(command, check=False, timeout=60).returncode == 2
