"""What the screen costs: bytes to the terminal, CPU and memory, per screen and size.

    python benchmarks/screen.py                      every screen at 200x50, the overview at others
    python benchmarks/screen.py --seconds 300 --only overview@200x50

Each row is a process of its own in a pseudo-terminal (true colour), drawing a run with 8 GPUs and
10 datasets; whatever changes at all while one generates (not a GPU's memory) changes once a second.
No supervisor runs.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import math
import os
import pty
import random
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_tui.protocol import Status
from eagle_tui.ui.recorded import RecordedClient

ROOT = Path(__file__).parent.parent
SCENE = ROOT / "tests" / "ui" / "data" / "kimi.json"
KEYS = {"overview": "1", "datasets": "2", "server": "4", "gpus": "5", "phases": "8"}
SIZES = ("80x24", "60x20", "300x80")
WARM_S = 8.0
"""Start, first paint and history; not counted."""
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
UNFOCUS = b"\x1b[O"
"""What a terminal sends when it loses the focus."""


class MovingClient(RecordedClient):
    """A recorded run whose figures change with every look, its time being now."""

    looks = 0

    async def status(self) -> Status:
        self.looks += 1
        body = self.now.model_dump()
        chance = random.Random(self.looks)
        body["at"] = time.time()
        for gpu in body["gpus"]:
            gpu["util"] = 0.9 + 0.1 * chance.random()
            gpu["power_w"] += chance.gauss(0, 6)
            gpu["temp_c"] = gpu["temp_c"] + chance.choice((-1, 0, 0, 1))
        for server in body["servers"]:
            server["tok_s"] = 860 + 90 * math.sin(self.looks / 60) + chance.gauss(0, 30)
            server["running"], server["queued"] = chance.randint(47, 56), chance.randint(130, 150)
            server["kv_usage"] = 0.8 + 0.04 * chance.random()
        for row in body["datasets"]:
            if row["state"] == "running":
                row["complete"] += self.looks // 2
                row["tokens"] += 700 * self.looks
                row["rate_per_min"] += chance.gauss(0, 0.5)
                row["tok_s"] += chance.gauss(0, 9)
                row["in_flight"] = chance.randint(40, 150)
        for phase in body["phases"]:
            if phase["state"] == "running":
                phase["done"] += self.looks // 2
                phase["elapsed_s"] += self.looks
        body["run"]["elapsed_s"] += self.looks
        return Status.model_validate(body)


def child() -> None:
    """Draw, in the terminal that we were given."""
    from eagle_tui.ui.app import EagleApp

    client = MovingClient.load(SCENE)
    shift = time.time() - client.now.at
    client.histories = {
        name: [p.model_copy(update={"t": p.t + shift}) for p in points]
        for name, points in client.histories.items()
    }
    asyncio.run(EagleApp(client, color="truecolor").run_async())


@dataclass(frozen=True)
class Cost:
    """What one screen cost."""

    bytes_s: float
    cpu: float
    """Share of one core."""
    rss: int
    growth: int
    """Bytes of memory gained while measured."""
    first_s: float
    """Seconds from start to the run's name on the screen."""


def measure(key: str, size: str, seconds: float, unfocused: bool = False) -> Cost:
    """Run the screen of a key for so long. Raises RuntimeError when it ends by itself."""
    columns, rows = (int(part) for part in size.split("x"))
    started = time.monotonic()
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(
            TERM="xterm-256color", COLORTERM="truecolor", PYTHONPATH=str(ROOT / "src")
        )
        os.execv(sys.executable, [sys.executable, __file__, "--child"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        first = _read(fd, 30.0, until=b"kimi-k25")[1] - started
        time.sleep(0.5)
        os.write(fd, key.encode())
        if unfocused:
            os.write(fd, UNFOCUS)
        _read(fd, WARM_S)
        cpu, rss = _spent(pid)
        begin = time.monotonic()
        count, _ = _read(fd, seconds)
        took = time.monotonic() - begin
        cpu_end, rss_end = _spent(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)
    return Cost(count / took, (cpu_end - cpu) / took, rss_end, rss_end - rss, first)


def _read(fd: int, seconds: float, until: bytes = b"") -> tuple[int, float]:
    """Bytes read in so many seconds, or until some were seen; and when it ended."""
    count, end, tail = 0, time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            break
        try:
            part = os.read(fd, 1 << 16)
        except OSError as error:
            raise RuntimeError("the screen ended by itself") from error
        count += len(part)
        tail = (tail + part)[-4096:]
        if until and until in tail:
            break
    return count, time.monotonic()


def _spent(pid: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    resident = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return (int(fields[11]) + int(fields[12])) / TICKS, resident * PAGE


def main(arguments: Sequence[str]) -> int:
    """Print a row per screen and size; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", help="such as gpus@200x50")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child()
        return 0
    wanted = options.only or [
        *(f"{name}@200x50" for name in KEYS),
        *(f"overview@{size}" for size in SIZES),
        "overview@200x50@unfocused",
    ]
    print("| screen | size | bytes/s | CPU of one core | memory | gained | first paint |")
    print("|---|---|---|---|---|---|---|")
    for item in wanted:
        name, size, *rest = item.split("@")
        cost = measure(KEYS[name], size, options.seconds, unfocused=bool(rest))
        print(
            f"| {' '.join((name, *rest))} | {size.replace('x', '×')} | {cost.bytes_s:,.0f} |"
            f" {cost.cpu:.1%} | {cost.rss / 2**20:.0f} MB | {cost.growth / 2**20:.1f} MB |"
            f" {cost.first_s:.2f} s |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
