"""Retunes of a real SGLang in a row, under load, some of them impossible.

    python tests/run/retuning.py DIR [--retunes 20] [--impossible 5] [--version 0.5.23] [--kills]

Every retune must end in a server that serves: with the new settings when these are possible, with
those before when they are not. Requests in flight are held, drained and dropped in turn. In the end
no prompt is lost or doubled and no process is left. With
`--kills`, now and then the supervisor, SGLang's parent or its scheduler is killed on the way.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from harness import Run, make

from eagle_tui import proc
from eagle_tui.protocol import Status

SERVE = Path(__file__).parent.parent.parent / "tools" / "sglang-cpu" / "serve.sh"
POSSIBLE = (
    "max-running-requests=4",
    "max-running-requests=16",
    "chunked-prefill-size=512",
    "schedule-conservativeness=0.5",
    "max-total-tokens=8192",
    "schedule-policy=lpm",
    "max-running-requests=default",
    "chunked-prefill-size=1024",
    "max-running-requests=8",
    "schedule-conservativeness=0.8",
    "max-total-tokens=12288",
    "schedule-policy=fcfs",
    "max-running-requests=6",
)
"""One after the other each changes something, also from the last to the first."""
IMPOSSIBLE = (
    "no-such-flag-at-all=1",  # refused before anything is stopped
    "mem-fraction-static=0.000001",  # the weights alone are more: no room for a KV pool
    "enable-hierarchical-cache=true",  # needs a GPU
    "dtype=float99",  # no such choice
    "context-length=99999999",  # more than the model has
)
MODES = ("hold", "drain", "abort")
START_S = 400.0


def settings(version: str) -> tuple[str, ...]:
    """Overrides of the demo's run.toml for a real SGLang on the CPU."""
    words = [str(SERVE), "--version", version, "--model", "{model}", "--port", "{port}"]
    return (
        "server[engine].engine=sglang",
        f"server[engine].command={json.dumps(words)}",
        "server[engine].flags={dtype = 'float32'}",
        "server[engine].stop_timeout_s=60.0",
        f"server[engine].start_timeout_s={START_S}",
        "generate.concurrency=4",
        "generate.concurrency_long=4",
    )


def sglang_processes(root: Path) -> list[psutil.Process]:
    """Living processes of SGLang that were started in the run directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()) == root and process.status() != psutil.STATUS_ZOMBIE:
                words = " ".join(process.cmdline())
                if "sglang" in words or "multiprocessing" in words:
                    found.append(process)
        except psutil.Error:
            continue
    return found


@dataclass
class Result:
    """One retune."""

    words: str
    possible: bool
    ended: str
    seconds: float
    killed: str
    reason: str


def serving(run: Run) -> bool:
    """Whether the server is ready and no change is under way."""
    server = run.status().servers[0]
    return server.state == "ready" and server.retune is None


def _arguments(process: psutil.Process) -> str:
    """Empty of one that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return ""


def kill(run: Run, what: str) -> None:
    """SIGKILL to the supervisor, to SGLang's parent, or to one of its children."""
    if what == "supervisor":
        victims = run.processes("supervisor")
    else:
        pid = run.status().servers[0].pid
        parent = psutil.Process(pid) if pid and psutil.pid_exists(pid) else None
        pids = [pid] if pid else []
        if what == "scheduler" and parent is not None:
            pids = [c.pid for c in parent.children() if "scheduler" in _arguments(c)]
        victims = [p for pid in pids if (p := proc.identify(pid))]
    for victim in victims:
        proc.send(victim, signal.SIGKILL)


def retune(run: Run, words: str, how: str, killed: str, delay_s: float) -> Result:
    """One retune to its end; with `killed`, that dies so long after the order. `how`: what becomes
    of the requests in flight."""
    began, at = time.monotonic(), time.time()
    done = run.verb("retune", words, "--in-flight", how, "--wait", "0", check=False)
    ended, reason = "refused", done.stderr.strip()
    if done.returncode == 0:
        if killed:
            time.sleep(delay_s)
            kill(run, killed)

        def settled(status: Status) -> bool:
            new = status.commands[-1:] and status.commands[-1].at >= at
            return bool(new) and status.commands[-1].state in ("in_effect", "refused")

        command = run.wait(f"{words} settled", settled, 3 * START_S).commands[-1]
        ended, reason = command.state, command.reason
    run.wait(f"served after {words}", lambda s: serving(run), 2 * START_S)
    seconds = time.monotonic() - began
    return Result(words, words not in IMPOSSIBLE, ended, seconds, killed, reason)


def _more(done: int, status: Status) -> bool:
    assert status.phases[1].state != "done", "there are too few prompts for so many retunes"
    return (status.phases[1].done or 0) > done


def retunes(run: Run, orders: list[str], kills: list[str], load_s: float) -> Iterator[Result]:
    """Retune after retune, with some time under load between them."""
    rng = random.Random(5)
    modes = islice(cycle(MODES), len(orders))
    for words, killed, how in zip(orders, kills, modes, strict=True):
        done = run.status().phases[1].done or 0
        run.wait("responses come", partial(_more, done), START_S)
        time.sleep(load_s)
        yield retune(run, words, how, killed, rng.uniform(0.5, 25.0))


def check(run: Run, results: list[Result]) -> None:
    """What must hold after all of them."""
    for result in results:
        expected = "in_effect" if result.possible else "refused"
        assert result.ended == expected, f"{result}\n{run.story()}"
    run.wait_done(1800)
    run.assert_each_once()
    run.down()
    deadline = time.monotonic() + 60
    while left := sglang_processes(run.root):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--retunes", type=int, default=20)
    parser.add_argument("--impossible", type=int, default=5)
    parser.add_argument("--version", default="0.5.23")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--load-s", type=float, default=2.0)
    parser.add_argument("--kills", action="store_true")
    args = parser.parse_args()
    shutil.rmtree(args.dir, ignore_errors=True)
    rng = random.Random(1)
    good = args.retunes - args.impossible
    orders = [POSSIBLE[i % len(POSSIBLE)] for i in range(good)]
    for i in range(args.impossible):
        orders.insert(rng.randrange(1, len(orders) + 1), IMPOSSIBLE[i % len(IMPOSSIBLE)])
    victims = ["", "supervisor", "parent", "scheduler"] if args.kills else [""]
    kills = [victims[i % len(victims)] for i in range(len(orders))]
    run = make(args.dir.resolve(), settings(args.version), args.rows)
    results: list[Result] = []
    try:
        run.up()
        for result in retunes(run, orders, kills, args.load_s):
            results.append(result)
            print(
                f"{len(results):3} {result.words:34} {result.ended:10} {result.seconds:6.1f} s "
                f"{result.killed:11}{result.reason[:110]}",
                flush=True,
            )
        check(run, results)
    finally:
        run.down()
    print(f"{len(results)} retunes: every one ended in a serving server; no prompt lost or doubled")


if __name__ == "__main__":
    main()
