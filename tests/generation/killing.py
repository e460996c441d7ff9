"""Kills a worker at random until its phase is done, and checks that every row is there once.

The test does it some thirty times; a longer run:
`python -m tests.generation.killing --seeds 5 --kills 40`.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from eagle_tui.rundir import jsonl
from eagle_tui.rundir.desired import DatasetControl, Retry

from .world import World, make_world

ROOT = Path(__file__).parent.parent.parent
FAULTS = (
    "500_text=0.02,503=0.02,reset=0.04,reset_body=0.03,abort=0.04,no_content=0.02,garbled=0.02,"
    "slow_body=0.01,400_unknown=0.01"
)


@dataclass(frozen=True)
class Result:
    """What a run of kills cost."""

    kills: int
    at_work: int
    """Kills that hit a worker which had stored responses already."""
    states: Counter[str]
    stored_pieces: int
    """Rows that were made in more than one piece."""


def _module(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", f"tests.generation.{name}", *args]


def _start_server(seed: int, token_s: float, port: int = 0) -> tuple[subprocess.Popen[bytes], int]:
    server = subprocess.Popen(
        _module(
            "fake_server", "--port", str(port), "--seed", str(seed), "--faults", FAULTS,
            "--token-s", str(token_s),
        ),
        cwd=ROOT, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    return server, int(server.stdout.readline())


def _order(world: World, rng: random.Random) -> None:
    """Something that an operator may want at any moment."""
    what = rng.choice(["hold", "abort", "drain", "no", "no", "concurrency", "retry"])
    if what == "retry":
        order = Retry(
            seq=world.wish.seq + 1,
            dataset=rng.choice([None, "b1"]),
            states=(rng.choice(["no_answer", "complete", "failed"]),),
        )
        world.want(pause="no", retries=(*world.wish.retries, order))
    elif what == "concurrency":
        control = DatasetControl(concurrency=rng.randrange(1, 40))
        world.want(pause="no", datasets={"b1": control})
    else:
        world.want(pause=what)


def _wait_for_work(world: World, worker: subprocess.Popen[bytes], attempt: int) -> None:
    """Until the worker sends requests or is paused."""
    end = time.monotonic() + 20
    path = world.run.events("generate", attempt)
    while worker.poll() is None and time.monotonic() < end:
        if any(event.get("mode") in ("running", "paused") for event in jsonl.rows(path)):
            return
        time.sleep(0.02)


def kill_run(
    root: Path, seed: int, kills: int, prompts: int = 200, token_s: float = 0.01
) -> Result:
    """Kill the worker `kills` times (every fourth time by SIGTERM, every fifth time the server as
    well), then let it finish. AssertionError: a row is lost, doubled or wrong."""
    rng = random.Random(seed)
    world = make_world(root, {"b1": prompts // 2, "b2": prompts - prompts // 2})
    server, port = _start_server(seed, token_s)
    log = (root / "worker.log").open("wb")
    try:
        world.endpoint(f"http://127.0.0.1:{port}")
        for number in range(kills):
            world.want(pause="no")
            worker = subprocess.Popen(
                _module("fast_worker", str(root), "--attempt", str(number + 1)),
                cwd=ROOT, stdout=log, stderr=log,
            )  # fmt: skip
            # Mostly while it works; every sixth time wherever it is, so also while it starts.
            if number % 6:
                _wait_for_work(world, worker, number + 1)
                for _ in range(rng.randrange(3)):
                    time.sleep(rng.uniform(0.0, 0.3))
                    _order(world, rng)
            if number % 5 == 4:
                server.kill()
                server.wait()
                server, _ = _start_server(seed + number, token_s, port)
            time.sleep(rng.uniform(0.0, 0.3))
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM if number % 4 == 3 else signal.SIGKILL)
            assert worker.wait(10) in (0, -9, -15), (root / "worker.log").read_text()
        world.want(pause="no", datasets={})
        end = subprocess.run(
            _module("fast_worker", str(root)),
            cwd=ROOT,
            stdout=log,
            stderr=log,
            timeout=120,
            check=False,
        )
        assert end.returncode == 0, (root / "worker.log").read_text()
    finally:
        server.kill()
        server.wait()
        log.close()
    states = world.check()
    world.check_retries()
    rows = [row for name in world.prompts for row in jsonl.rows(world.run.responses(name))]
    return Result(
        kills=kills,
        at_work=sum(
            any(event["e"] == "result" for event in jsonl.rows(world.run.events("generate", n)))
            for n in range(1, kills + 1)
        ),
        states=states,
        stored_pieces=sum(row["pieces"] > 1 for row in rows),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--prompts", type=int, default=600)
    args = parser.parse_args()
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as root:
            began = time.monotonic()
            result = kill_run(Path(root) / "run", seed, args.kills, args.prompts)
            print(
                f"seed {seed}: {result.kills} kills, {result.at_work} of them at work, "
                f"{dict(result.states)}, {result.stored_pieces} rows in pieces, "
                f"{time.monotonic() - began:.0f} s: 0 lost, 0 doubled, 0 wrong",
                flush=True,
            )


if __name__ == "__main__":
    main()
