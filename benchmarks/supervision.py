"""What the supervisor costs: CPU and memory while phase 2 runs, and while nothing is to be done.

    python benchmarks/supervision.py     60 s each: at the real rate, and at 200 times that

The supervisor is the real one, and so is the worker of phase 2 whose event log it reads; eight GPUs
and the server are synthetic (feed.py). Idle: the run is paused.
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
from terminals import Tmux, resident, spent

WARM_S = 15.0
CPU_AIM, RSS_AIM = 0.01, 70


def cost(run: feed.Live, seconds: float) -> tuple[float, int, int, float]:
    """Share of a core, bytes of memory at begin and end, and responses a second meanwhile."""
    time.sleep(WARM_S)
    pid = run.supervisor
    began, cpu, rss, done = time.monotonic(), spent(pid), resident(pid), _done(run)
    at = run.status.at
    time.sleep(seconds)
    took = time.monotonic() - began
    cpu = (spent(pid) - cpu) / took
    after = run.status
    return cpu, rss, resident(pid), (_done(run) - done) / max(1.0, after.at - at)


def _done(run: feed.Live) -> int:
    return run.status.phases[1].done or 0


def row(name: str, found: tuple[float, int, int, float]) -> list[str]:
    """A row of the table."""
    cpu, before, after, per_s = found
    rss = f"{before / 2**20:.0f}", f"{after / 2**20:.0f}"
    return [name, f"{per_s:.1f}", f"{cpu:.2%}", *rss]


def main(arguments: Sequence[str]) -> int:
    """Print the table; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rates", type=float, nargs="*", default=[0.5, 100.0])
    options = parser.parse_args(arguments)
    rows = []
    for rate in options.rates:
        left = int(rate * (options.seconds + 120) * 2) + 10_000
        with (
            feed.live(per_s=rate, responses=20_000, days=2, left=left) as run,
            tempfile.TemporaryDirectory() as base,
        ):
            rows.append(row("phase 2, nobody looks", cost(run, options.seconds)))
            screen = Tmux([feed.EAGLE, "attach", str(run.root)], run.env, Path(base), 200, 50)
            screen.wait("kimi-k25")
            rows.append(row("phase 2, a screen looks", cost(run, options.seconds)))
            screen.end()
            if rate == options.rates[0]:
                run.eagle("pause", "--yes", str(run.root))
                rows.append(row("idle: paused, nobody looks", cost(run, options.seconds)))
    head = [
        "supervisor", "responses/s", f"CPU of one core (aim <= {CPU_AIM:.0%})", "MB at begin",
        f"MB at end (aim <= {RSS_AIM})",
    ]  # fmt: skip
    table(head, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
