"""A terminal that is not read (a stopped tmux, a frozen SSH link) holds nothing up."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import psutil

from .rig import PLAIN, plain, screen

BUSY = (
    PLAIN
    + """
beat = open(sys.argv[2], "w", buffering=1)
import itertools, time
names = itertools.cycle(["eagle-dark", "eagle-light"])

def busy():
    # Repaints everything, which is more than the terminal takes in.
    beat.write(f"{time.monotonic()}\\n")
    app.set_theme(next(names))
    run = client.now.run.model_copy(update={"name": f"tick{int(time.monotonic() * 10)}"})
    client.now = client.now.model_copy(update={"run": run})
    app.poll_soon()

begin = app.start
app.start = lambda: (begin(), app.set_interval(0.1, busy))
app.run()
"""
)
STALL_S = 4.0


def test_a_terminal_that_stalls_holds_up_nothing_and_is_redrawn(tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    with screen(BUSY, str(beats), size=(200, 50), ready="tick") as shown:
        watched = psutil.Process(shown.process.pid)
        shown.read(1.0)
        before = watched.memory_info().rss
        began = time.monotonic()
        time.sleep(STALL_S)
        ended = time.monotonic()
        grown = watched.memory_info().rss - before
        times = [float(line) for line in beats.read_text().split() if line]
        stalled = [began, *(t for t in times if began < t < ended), ended]
        longest = max(b - a for a, b in pairwise(stalled))
        assert longest < 1.5, f"the event loop stood for {longest:.1f} s"
        assert len(stalled) > STALL_S * 3
        assert grown < 24 * 2**20
        # Read again: what is shown is of now, and whole.
        after = b""
        newest = f"tick{int(ended * 10)}"[:-1]
        deadline = time.monotonic() + 15
        while newest.encode() not in plain(after) and time.monotonic() < deadline:
            after += shown.read(0.2)
            newest = f"tick{int(time.monotonic() * 10)}"[:-1]
        text = plain(after).decode(errors="replace")
        assert "tick" in text.rsplit("elapsed", 1)[0]
        assert "b8_sweagent" in text and "Detach" in text
        # Nothing was cut: every escape sequence that was begun is whole.
        assert b"\x1b" not in plain(shown.seen)[:-40]
