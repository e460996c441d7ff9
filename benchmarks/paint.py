"""How soon a run of days is on the screen: from exec to the first frame with its figures.

    python benchmarks/paint.py                    a million responses, 7 days of history, 5 times

The run is written (largerun.py: a minute, 1.8 GB under $TMPDIR), its supervisor started and phase 2
going on; then each program is started several times, in turn, in a pseudo-terminal of 200x50. The
frame counts when each dataset stands there with its figures, and all eight GPUs. The floor is
an empty Textual application of one line in the same interpreter.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import feed
import largerun
from harness import table
from terminals import spent

FLOOR = """
from textual.app import App
from textual.widgets import Static
class Empty(App):
    def compose(self):
        yield Static("one line")
Empty().run()
"""
LONGEST_S = 60.0
AIM_S = 1.0
_SEQUENCE = re.compile(
    rb"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)"
)


@dataclass
class Times:
    """What one program took, each time."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def painted(
    command: Sequence[str], env: Mapping[str, str], needles: Sequence[str]
) -> tuple[float, float]:
    """Seconds, and CPU seconds, from exec until all needles were drawn. The program is killed."""
    began = time.monotonic()
    pid, fd = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", 50, 200, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.execvpe(command[0], list(command), dict(env))
    wanted = [needle.encode() for needle in needles]
    seen = b""
    try:
        while True:
            left = began + LONGEST_S - time.monotonic()
            if left < 0 or not select.select([fd], [], [], left)[0]:
                raise RuntimeError(f"not drawn: {[w for w in wanted if w not in seen]}")
            try:
                seen += _SEQUENCE.sub(b"", os.read(fd, 1 << 16))
            except OSError as error:
                raise RuntimeError(f"ended by itself: {seen[-500:]!r}") from error
            if all(needle in seen for needle in wanted):
                return time.monotonic() - began, spent(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def ended(command: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Seconds, and CPU seconds, until a program ends."""
    began = time.monotonic()
    child = subprocess.Popen(list(command), env=dict(env), stdout=subprocess.DEVNULL)
    _, code, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(code)
    assert child.returncode == 0
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def main(arguments: Sequence[str]) -> int:
    """Print the table; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--responses", type=int, default=1_000_000)
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args(arguments)
    parts = largerun.shares(options.responses, left=100_000)
    names = [part.name for part in parts]
    done = [f"{p.done:,}/{p.prompts:,}" for p in parts if p.done == p.prompts]
    gpus = [f"{n} RTX PRO" for n in range(8)]
    made = time.monotonic()
    with feed.live(
        per_s=2, responses=options.responses, days=options.days, left=100_000, start=False
    ) as run:
        made = time.monotonic() - made
        run.up()
        print(
            f"{options.responses:,} responses, {options.days:g} days: written in {made:.0f} s; its"
            f" supervisor answers {run.ready_s:.1f} s after `up -d`\n", flush=True,
        )  # fmt: skip
        root = str(run.root)
        found = {name: Times() for name in ("empty Textual app", "attach", "replay", "status")}
        for _ in range(options.times):
            for name, times in found.items():
                if name == "status":
                    wall, cpu = ended([feed.EAGLE, "status", root], run.env)
                elif name == "attach":
                    command = [feed.EAGLE, "attach", root]
                    wall, cpu = painted(command, run.env, [*names, *done, *gpus])
                elif name == "replay":
                    wall, cpu = painted([feed.EAGLE, "replay", root], run.env, names)
                else:
                    wall, cpu = painted([sys.executable, "-c", FLOOR], run.env, ["one line"])
                times.wall.append(wall)
                times.cpu.append(cpu)
    floor = statistics.median(found["empty Textual app"].cpu)
    rows = []
    for name, times in found.items():
        middle = statistics.median(times.cpu)
        aim = f" (aim <= {AIM_S:.0f})" if name == "attach" else ""
        rows.append(
            [
                name,
                f"{min(times.wall):.2f}",
                f"{statistics.median(times.wall):.2f}{aim}",
                f"{middle:.2f}",
                f"{middle / floor:.1f}",
            ]
        )
    table(["until the figures stand there", "s, best", "s, median", "CPU s", "of the floor"], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
