"""What a day does to the screen's memory: 24 hours of snapshots, one a second, as fast as they are
drawn.

    python benchmarks/day.py                 86,400 snapshots; takes a quarter of an hour

The application is the real one, in a pseudo-terminal of 200x50 that is read all the time; it
is told of a run of 8 GPUs and 10 datasets that goes on, its clock goes on by a second with each
snapshot, and the next one is given only when the one before was painted: none is left out. What
the timers would do in the meantime is done (samples are read every ten seconds, events come, free
memory is given back), and every hour all screens are opened, each for five minutes of the day.
Responses and logs are those of a run directory that is read as always.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import gc
import json
import math
import os
import pty
import random
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import largerun
from harness import table
from terminals import resident

HOUR = 3600
VISIT = 300
"""Seconds of each hour on each screen but the overview."""
SAMPLES_EVERY = 10
TOLD_AT = (1, 6, 12, 24)
GROWTH_AIM, RSS_AIM = 5, 110


def child(root: Path, hours: int) -> None:
    """Draw so many hours in the terminal that we were given, and tell of each in a file."""
    gc.disable()  # as `eagle-tui attach` starts
    from eagle_tui.clock import ManualClock
    from eagle_tui.protocol import Event, History, HistoryPoint, Mark, Status
    from eagle_tui.reader.files import RunFiles
    from eagle_tui.rundir.paths import RunDir
    from eagle_tui.ui import memory
    from eagle_tui.ui.app import EagleApp
    from eagle_tui.ui.recorded import RecordedClient
    from eagle_tui.ui.screens.catalog import SCREENS
    from eagle_tui.versions import read_status

    recorded = json.loads(largerun.SCENE.read_text(encoding="utf-8"))
    scene = Status.from_json(recorded).to_json()
    others = list(SCREENS)[1:]
    began = time.time() - 2 * 86400

    class Day(RecordedClient):
        """Second after second, each told when the one before was painted."""

        second = 0
        painted = asyncio.Event()

        async def status(self) -> Status:
            await self.painted.wait()
            self.painted.clear()
            self.second += 1
            clock.advance(1.0)
            # As over the socket: text that is read and checked.
            return read_status(json.loads(json.dumps(self._body())))

        def _body(self) -> dict[str, Any]:
            n, chance, body = self.second, random.Random(self.second), dict(scene)
            body["at"] = clock.wall()
            body["run"] = scene["run"] | {"started": began, "elapsed_s": clock.wall() - began}
            body["gpus"] = [
                gpu
                | {
                    "util": 0.9 + 0.1 * chance.random(),
                    "power_w": 570 + chance.gauss(0, 8),
                    "temp_c": gpu["temp_c"] + chance.choice((-1, 0, 0, 1)),
                }
                for gpu in scene["gpus"]
            ]
            server = {
                "tok_s": 860 + 90 * math.sin(n / 600) + chance.gauss(0, 30),
                "running": chance.randint(47, 56),
                "queued": chance.randint(90, 103),
                "kv_usage": 0.8 + 0.04 * chance.random(),
            }
            body["servers"] = [scene["servers"][0] | server]
            body["datasets"] = [
                row
                | {
                    "complete": row["complete"] + n // 20,
                    "tokens": row["tokens"] + 700 * n,
                    "rate_per_min": 26 + chance.gauss(0, 0.5),
                    "in_flight": chance.randint(140, 150),
                }
                if row["state"] == "running"
                else row
                for row in scene["datasets"]
            ]
            return body

        async def events(self, after: int, limit: int) -> list[Event]:
            # One a minute, and the run goes on for two days already.
            newest = int(clock.wall() - began) // 60
            return [
                Event(id=n, at=began + 60 * n, severity="info", source="generate", text=f"told {n}")
                for n in range(max(after, newest - limit) + 1, newest + 1)
            ]

        async def marks(self, since: float) -> list[Mark]:
            count = int(clock.wall() - began) // 1800
            found = [Mark(id=n, at=began + 1800 * n, kind="cap", text="cap")
                     for n in range(count)]  # fmt: skip
            return [mark for mark in found if mark.at >= since]

        async def history(
            self, series: str, since: float, step_s: float, until: float | None = None
        ) -> History:
            step = max(1, int(step_s))
            end = clock.wall() if until is None else until
            points = tuple(
                HistoryPoint(t=float(t), mean=800 + t % 97, low=700, high=900)
                for t in range(int(max(since, began)) // step * step, int(end), step)
            )
            return History(series=series, step_s=float(step), points=points)

    class DayApp(EagleApp):
        def on_eagle_app_snapshot(self, message: EagleApp.Snapshot) -> None:
            super().on_eagle_app_snapshot(message)
            self.screen.call_after_refresh(self._painted)

        def _painted(self) -> None:
            n = client.second
            if n % HOUR == 0:
                line = {"hour": n // HOUR, "rss": resident(os.getpid()), "cpu": time.process_time()}
                with (root / "hours.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                if n >= hours * HOUR:
                    self.exit()
                    return
            visit, into = divmod(n % HOUR, VISIT)
            if into == 1:  # from the first second of the first hour on: n begins with 1
                name = others[visit] if visit < len(others) else "overview"
                self.open_screen(name)
            if n % SAMPLES_EVERY == 0 and self.shown is not None:
                self.shown.load_soon()
            if n % memory.GIVE_BACK_S == 0:
                memory.give_back()
            client.painted.set()

    clock = ManualClock(wall=time.time() - 86400)
    client = Day(recorded, RunFiles(RunDir.at(root)))
    client.painted.set()
    app = DayApp(client, clock=clock, poll_s=0.0, color="truecolor")
    asyncio.run(app.run_async())


def run(hours: int) -> list[dict[str, float]]:
    """What was told of each hour."""
    with tempfile.TemporaryDirectory(prefix="eagle-bench-") as base:
        root = Path(base) / "run"
        largerun.make(root, responses=2000, days=0.1, left=100, url="http://127.0.0.1:9")
        (root / "logs" / "generate-0001.log").write_text("a line of a log\n" * 5000)
        pid, fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
            os.environ |= {
                "TERM": "xterm-256color", "COLORTERM": "truecolor", "XDG_CONFIG_HOME": base,
                "TEXTUAL_FPS": "1000",
            }  # fmt: skip
            command = [sys.executable, __file__, "--child", str(root), "--hours", str(hours)]
            os.execv(sys.executable, command)
        tail = b""
        try:
            while data := os.read(fd, 1 << 16):
                tail = (tail + data)[-4000:]
        except OSError:
            pass
        os.waitpid(pid, 0)
        found = root / "hours.jsonl"
        lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
        if len(lines) < hours:
            raise RuntimeError(f"ended after {len(lines)} hours: {tail.decode(errors='replace')}")
        return [json.loads(line) for line in lines]


def main(arguments: Sequence[str]) -> int:
    """Print the table; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child, options.hours)
        return 0
    began = time.monotonic()
    told = run(options.hours)
    took = time.monotonic() - began
    first = told[0]["rss"]
    rows = [
        [
            f"{line['hour']} h",
            f"{line['hour'] * HOUR:,}",
            f"{line['rss'] / 2**20:.1f}",
            f"{(line['rss'] - first) / 2**20:+.1f}",
        ]
        for line in told
        if line["hour"] in (*TOLD_AT, options.hours)
    ]
    aims = f"MB (aim <= {RSS_AIM})", f"MB since the first hour (aim <= {GROWTH_AIM})"
    table(["after", "snapshots drawn", *aims], rows)
    each = told[-1]["cpu"] / (options.hours * HOUR) * 1000
    print(f"{took:.0f} s; {each:.1f} ms of CPU for a snapshot and all that it brings")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
