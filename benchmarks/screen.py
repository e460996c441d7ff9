"""What the screen costs in a real tmux: CPU, bytes to the terminal, memory, per screen.

    python benchmarks/screen.py                      overview for 5 minutes, then the other screens
    python benchmarks/screen.py --seconds 60 --only overview gpus@80x24 overview@hidden

The run is real but for its server and GPUs (feed.py): 8 GPUs, 10 datasets, two days of history, 5
answers a second, which is ten times what the real run had, so that every figure changes at every
look. *written* is what the program writes to its terminal, as tmux pipes it away byte by byte;
*sent* what tmux's client writes to the terminal outside, which is what goes over SSH. *hidden*:
another window of tmux is current; *blurred*: the outer terminal has lost the focus; of both tmux
tells the program, since focus-events are on (as `eagle-tui doctor terminal` wants it).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import feed
from harness import table
from terminals import Look, Tmux

KEYS = {
    "overview": ("1", "throughput"),
    "datasets": ("2", "b8_sweagent"),
    "samples": ("3", "newest"),
    "server": ("4", "sglang"),
    "gpus": ("5", "RTX PRO"),
    "logs": ("6", "supervisor"),
    "events": ("7", "generate"),
    "phases": ("8", "prepare"),
}
"""The key of each screen, and a word that stands on it."""
FIRST = ["overview"]
REST = [*list(KEYS)[1:], "overview@hidden", "overview@blurred"]
SIZES = ["overview@80x24", "overview@60x20", "overview@300x80"]
SIZE = "200x50"
WARM_S = 20.0
"""Start, first paint, history, and until nothing of it is to be freed; not counted."""
CPU_AIM, BYTES_AIM, RSS_AIM = 0.025, 3000, 110


def started(case: str, run: feed.Live, base: Path) -> Tmux:
    """The program in its tmux, showing what the case says."""
    name, *how = case.split("@")
    size = next((word for word in how if "x" in word), SIZE)
    columns, rows = (int(part) for part in size.split("x"))
    tmux = Tmux([feed.EAGLE, "attach", str(run.root)], run.env, base, columns, rows)
    tmux.wait("kimi-k25")
    time.sleep(1.0)
    key, word = KEYS[name]
    tmux.press(key)
    tmux.wait(word)
    if "hidden" in how:
        tmux.hide()
    if "blurred" in how:
        tmux.blur()
    return tmux


def measure(cases: Sequence[str], run: feed.Live, seconds: float) -> list[list[str]]:
    """Show all cases at once, each in a tmux of its own, for so long: a row of the table each."""
    with tempfile.TemporaryDirectory(prefix="eagle-bench-") as base:
        screens = {case: started(case, run, Path(base)) for case in cases}
        try:
            time.sleep(WARM_S)
            before = {case: tmux.look() for case, tmux in screens.items()}
            time.sleep(seconds)
            return [row(case, before[case], tmux.look()) for case, tmux in screens.items()]
        finally:
            for tmux in screens.values():
                tmux.end()


def row(case: str, before: Look, after: Look) -> list[str]:
    """A row of the table."""
    seconds = after.at - before.at
    return [
        case if "x" in case else f"{case}",
        f"{(after.cpu - before.cpu) / seconds:.2%}",
        f"{(after.written - before.written) / seconds:,.0f}",
        f"{(after.sent - before.sent) / seconds:,.0f}",
        f"{before.rss / 2**20:.0f}",
        f"{after.rss / 2**20:.0f}",
    ]


def main(arguments: Sequence[str]) -> int:
    """Print a row per screen; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", nargs="*", help="such as overview gpus@80x24 overview@hidden")
    parser.add_argument("--sizes", action="store_true", help="the overview at other sizes, too")
    options = parser.parse_args(arguments)
    rounds = [options.only] if options.only else [FIRST, REST + (SIZES if options.sizes else [])]
    rows = []
    with feed.live(per_s=5, responses=20_000, days=2, left=60_000) as run:
        for cases in rounds:
            rows += measure(cases, run, options.seconds)
    head = [
        f"screen, {options.seconds:.0f} s", f"CPU of one core (aim <= {CPU_AIM:.1%})",
        f"bytes/s written (aim <= {BYTES_AIM:,})", "bytes/s sent", "MB at begin",
        f"MB at end (aim <= {RSS_AIM})",
    ]  # fmt: skip
    table(head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
