"""A terminal that is not read (a stopped tmux, a frozen SSH link) holds nothing up."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from .rig import PLAIN, SCENES, plain, screen

BUSY = (
    PLAIN
    + """
import time
beats = open(sys.argv[2], "w", buffering=1)

def busy():
    # Much output that costs nothing to make: the cursor is saved and restored.
    beats.write(f"{time.monotonic()}\\n")
    app._driver.write("\\x1b7\\x1b8" * 5000)

begin = app.start
app.start = lambda: (begin(), app.set_interval(0.05, busy))
app.run()
"""
)
STALL_S = 3.0
STALLED_S = 2.4
"""An event loop that waited for its terminal would stand for longer."""


def longest_gap(beats: Path, began: float, ended: float) -> float:
    """The longest time, in seconds, for which the event loop stood between two moments."""
    times = [float(line) for line in beats.read_text().split() if line]
    return max(b - a for a, b in pairwise([began, *(t for t in times if began < t < ended), ended]))


def test_a_terminal_that_stalls_holds_up_nothing_and_is_redrawn(tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    with screen(BUSY, str(beats)) as shown:
        watched = psutil.Process(shown.process.pid)
        shown.read(1.0)
        before = watched.memory_info().rss
        began = time.monotonic()
        time.sleep(STALL_S)
        ended = time.monotonic()
        grown = watched.memory_info().rss - before
        assert longest_gap(beats, began, ended) < STALLED_S
        assert grown < 8 * 2**20
        # Read again: what was left out is made good by drawing everything, though nothing changed.
        after = shown.until("b8_sweagent")
        assert b"kimi-k25-eagle3" in plain(after)
        # Nothing was cut: every escape sequence that was begun is whole.
        assert b"\x1b" not in plain(shown.seen)[:-40].replace(b"\x1b7", b"").replace(b"\x1b8", b"")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_stopped_tmux_holds_up_nothing_either(tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    script = tmp_path / "busy.py"
    script.write_text(BUSY)
    tmux = ["tmux", "-L", f"stall-{uuid.uuid4().hex[:8]}", "-f", "/dev/null"]

    def call(*words: str) -> str:
        done = subprocess.run([*tmux, *words], check=False, capture_output=True, text=True)
        return done.stdout

    def shows(text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in (seen := call("capture-pane", "-p")):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)

    program = [sys.executable, str(script), str(SCENES / "kimi.json"), str(beats)]
    call("new-session", "-d", "-x", "100", "-y", "30", shlex.join(program))
    server = int(call("display-message", "-p", "#{pid}"))
    try:
        shows("b8_sweagent")
        os.kill(server, signal.SIGSTOP)
        began = time.monotonic()
        time.sleep(STALL_S)
        ended = time.monotonic()
        os.kill(server, signal.SIGCONT)
        assert longest_gap(beats, began, ended) < STALLED_S
        call("send-keys", "?")
        shows("Orders to the run")
    finally:
        os.kill(server, signal.SIGCONT)
        call("kill-server")
