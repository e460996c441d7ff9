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
STALL_S = 4.0


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
        times = [float(line) for line in beats.read_text().split() if line]
        stalled = [began, *(t for t in times if began < t < ended), ended]
        longest = max(b - a for a, b in pairwise(stalled))
        assert longest < 1.5, f"the event loop stood for {longest:.1f} s"
        assert grown < 8 * 2**20
        # Read again: what was left out is made good by drawing everything, though nothing changed.
        after = shown.until("b8_sweagent", 15)
        assert b"kimi-k25-eagle3" in plain(after)
        # Nothing was cut: every escape sequence that was begun is whole.
        assert b"\x1b" not in plain(shown.seen)[:-40].replace(b"\x1b7", b"").replace(b"\x1b8", b"")
