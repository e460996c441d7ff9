"""Several ranks under torchrun, and kills: same samples, same weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.pipeline.torchrun.launch import leave_ending, settle
from eagle_tui.pipeline.worker import Failed, Refused, Stopped
from eagle_tui.rundir import manifest

from .world import World, distance, make_world

# Rows of equal length: two packs of one rank's step then are the one pack, twice as large, of the
# other training.
EQUAL = [20] * 24
FEW_EPOCHS = {"epochs": 3, "validate_steps": 4}


def start(world: World, attempt: int) -> subprocess.Popen[bytes]:
    """The phase as an operator or the supervisor runs it."""
    argv = [sys.executable, "-m", "eagle_tui.pipeline.train", str(world.root)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    log = (world.root / f"log-{attempt}").open("wb")
    with log:
        return subprocess.Popen([*argv, "--attempt", str(attempt)], env=env, stdout=log, stderr=log)


def finish(world: World, attempt: int) -> int:
    return start(world, attempt).wait(300)


def by_hand(world: World) -> int:
    """The phase as on several machines: torchrun is what starts it."""
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    argv += ["-m", "eagle_tui.pipeline.train", str(world.root)]
    with (world.root / "log-1").open("wb") as log:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            argv, env=env, stdout=log, stderr=log, timeout=300, check=False
        ).returncode


def wait_for_step(world: World, attempt: int, step: int) -> None:
    """Until so many steps are told."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        if world.run.events("train", attempt).exists():
            for event in world.events(attempt):
                if event["e"] == "progress" and event["done"] >= step:
                    return
        time.sleep(0.02)
    raise AssertionError(
        f"step {step} was not reached: {(world.root / f'log-{attempt}').read_text()}"
    )


def ended(world: World, attempt: int) -> dict[str, Any]:
    return next(e for e in world.events(attempt) if e["e"] == "end")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same training on one rank, in this process."""
    world = make_world(tmp_path_factory.mktemp("alone"), batch_tokens=80, **FEW_EPOCHS)
    world.extract(EQUAL)
    world.train()
    return world


@pytest.mark.parametrize(
    ("strategy", "run"), [("ddp", lambda world: finish(world, 1)), ("fsdp2", by_hand)]
)
def test_two_ranks_learn_what_one_does(
    tmp_path: Path, alone: World, strategy: str, run: Callable[[World], int]
) -> None:
    world = make_world(tmp_path, batch_tokens=40, nproc=2, strategy=strategy, **FEW_EPOCHS)
    world.extract(EQUAL)
    assert run(world) == 0, (world.root / "log-1").read_text()
    assert ended(world, 1)["outcome"] == "done"
    made, expected = (manifest.read(w.run, "train") for w in (world, alone))
    assert made is not None and expected is not None
    for key in ("steps", "tokens", "rows"):
        assert made.counts[key] == expected.counts[key]
    assert made.counts["accept"] == pytest.approx(expected.counts["accept"], abs=0.02)
    assert distance(world.weights(), alone.weights()) < 1e-4
    events = [e["e"] for e in world.events(1)]
    assert events.count("start") == events.count("end") == 1 and "metric" in events


def test_killed_in_the_middle_it_goes_on_and_other_ranks_may_finish(
    tmp_path: Path, alone: World
) -> None:
    """Two ranks are killed with all they have started; one rank takes over half-way."""
    world = make_world(tmp_path, batch_tokens=40, nproc=2, checkpoint_s=0.01, **FEW_EPOCHS)
    world.configure(epochs=40)
    world.extract(EQUAL)
    process = start(world, 1)
    wait_for_step(world, 1, 3)
    process.kill()
    process.wait()
    wait_until_gone(str(world.root))
    step = world.state()["step"]
    assert step >= 2 and world.state()["rows"] == 4 * step
    # One rank takes one pack a step: an epoch of 12 packs goes on in the middle of it.
    world.configure(epochs=world.state()["epoch"] + 2, nproc=1, checkpoint_s=3600.0)
    assert finish(world, 2) == 0, (world.root / "log-2").read_text()
    assert f"goes on at step {step:,}" in world.notes(2)
    assert world.state()["rows"] == world.settings["epochs"] * len(EQUAL)


def wait_until_gone(word: str) -> None:
    """Until no process has `word` in its arguments: ranks end when the phase's process is gone."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = [p for p in Path("/proc").glob("[0-9]*/cmdline") if word in _read(p)]
        if not found:
            return
        time.sleep(0.1)
    raise AssertionError(f"still running: {[_read(p) for p in found]}")


def _read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_killed_one_rank_continues_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole, world = (
        make_world(tmp_path / name, epochs=12, checkpoint_s=0.01, validate_steps=1000)
        for name in ("whole", "killed")
    )
    for made in (whole, world):
        made.extract([16, 24, 20, 33, 18, 40, 27, 22])
    whole.train()
    attempt = 0
    for step in (2, 9):
        attempt += 1
        process = start(world, attempt)
        wait_for_step(world, attempt, step)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert finish(world, attempt + 1) == 0
    assert distance(world.weights(), whole.weights()) <= 1e-6
    for key in ("step", "rows", "tokens"):
        assert world.state()[key] == whole.state()[key]


def test_asked_to_stop_all_ranks_leave_a_checkpoint(tmp_path: Path) -> None:
    world = make_world(tmp_path, batch_tokens=40, nproc=2, epochs=2000)
    world.extract(EQUAL)
    process = start(world, 1)
    wait_for_step(world, 1, 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 0
    assert ended(world, 1)["outcome"] == "stopped"
    assert world.state()["rows"] == 4 * world.state()["step"] > 0


@pytest.mark.parametrize(
    ("endings", "code", "error", "words"),
    [
        ([("done", ""), ("done", "")], 0, None, ""),
        ([("stopped", ""), ("stopped", "")], 0, Stopped, None),
        ([("failed", "its GPU is full"), ("refused", "no rows")], 3, Refused, "no rows"),
        ([("failed", "its GPU is full"), ("failed", "peer gone")], 1, Failed, "its GPU is full"),
        ([("done", "")], -9, Failed, "1 of 2 ranks died without a word"),
        ([], 1, Failed, "2 of 2 ranks died without a word"),
    ],
)
def test_the_phase_ends_as_its_ranks_did(
    tmp_path: Path, endings: list[tuple[str, str]], code: int, error: Any, words: str | None
) -> None:
    world = make_world(tmp_path)
    for rank, (outcome, reason) in enumerate(endings):
        leave_ending(tmp_path / "ranks", rank, outcome, reason)
    worker = world.worker()
    if error is None:
        settle(worker, tmp_path / "ranks", 2, code)
    else:
        with pytest.raises(error, match=words):
            settle(worker, tmp_path / "ranks", 2, code)
    worker.log.close()


LEAVES = """
import os, sys, tempfile, torch, torch.distributed as dist
from torch import nn
from eagle_tui.pipeline.training.ranks import Ranks, join

os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
torch.set_num_threads(1)

def leave():
    # The wrapped model outlives the group, and a collective has just ended.
    with join("cpu") as ranks:
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
        model(torch.ones(2, 4)).sum().backward()
        Ranks(0, 2, ranks.device).any([True, False])

for _ in range(50):
    leave()
"""


def test_leaving_the_group_never_hangs() -> None:
    """Once in some fifteen times it did, where the model was the group's last owner."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", LEAVES], timeout=120, check=True)
