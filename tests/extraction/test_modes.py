"""Rolling and online: the same rows, the same losses and the same drafter as from stored states."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from eagle_tui.pipeline.extraction import writer
from eagle_tui.pipeline.shards import TokenRow
from eagle_tui.pipeline.training import report, rolling
from eagle_tui.rundir import atomic, desired, jsonl, manifest

from .ranks import ranks_of, wait_for
from .world import World, make_rows, make_world

WINDOW_GB = 0.0004
"""About 400 tokens: three or four windows an epoch."""
TRAIN = {
    **{"ttt_steps": 3, "epochs": 2, "batch_tokens": 120, "max_tokens": 50, "draft_vocab": 100},
    **{"learning_rate": 3e-3, "device": "cpu", "dtype": "float32"},
    **{"validate_steps": 8, "checkpoint_s": 3600.0},
}
EXTRACT = {"dtype": "float32", "batch_tokens": 200, "rolling_window_gb": WINDOW_GB}


@pytest.fixture(autouse=True)
def report_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_EVERY_S", 0.0)


def world_of(root: Path, mode: str, *, rows: Any = None, **train: Any) -> World:
    """A run of that mode, extracted."""
    world = make_world(root, 40, rows=rows, training={**TRAIN, **train}, mode=mode, **EXTRACT)
    assert world.extract() == 0, world.end()
    return world


def test_the_window_of_a_rolling_training_goes_with_the_mode(tmp_path: Path) -> None:
    world = world_of(tmp_path, "rolling")
    window = world.run.phase("extract") / "window"
    window.mkdir()
    (window / "hidden-00000.safetensors").write_bytes(b"x")
    assert world.extract() == 0 and window.exists()
    world.settings(**EXTRACT, mode="stored")
    assert world.extract() == 0, world.end()
    assert not window.exists()


def losses(world: World) -> list[float]:
    """Of every step of the newest attempt."""
    return [e["values"]["loss"] for e in world.events("train") if e["e"] == "metric"]


def checkpoint(world: World) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """State and weights of the last one."""
    root = world.run.phase("train") / "checkpoints"
    index = atomic.read_json(root / "index.json")
    assert index is not None
    body = atomic.read_json(root / index["last"] / "state.json")
    assert isinstance(body, dict)
    return body, load_file(root / index["last"] / "model.safetensors")


def distance(one: World, other: World) -> float:
    """Largest difference of a weight."""
    a, b = checkpoint(one)[1], checkpoint(other)[1]
    return max(float((a[name].float() - b[name].float()).abs().max()) for name in a)


def window_of(world: World) -> Path:
    return world.run.phase("extract") / "window"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_EVERY_S", 0.0)
        world = world_of(tmp_path_factory.mktemp("stored"), "stored")
        assert world.train() == 0
        yield world


def assert_same(world: World, stored: World, *, whole: bool = True) -> None:
    """The same training; `whole`: in one attempt."""
    if whole:
        assert losses(world) == pytest.approx(losses(stored), rel=1e-4)
    found, wanted = checkpoint(world)[0], checkpoint(stored)[0]
    for key in ("step", "epoch", "rows", "tokens"):
        assert found[key] == wanted[key], key
    assert found["validated"]["alpha"] == pytest.approx(wanted["validated"]["alpha"], rel=1e-3)
    assert distance(world, stored) < 1e-3


def test_online_learns_what_stored_states_teach(tmp_path: Path, stored: World) -> None:
    world = world_of(tmp_path, "online")
    made = manifest.read(world.run, "extract")
    assert made is not None and made.outputs == {} and made.counts["mode"] == "online"
    assert made.counts["train"]["rows"] == 36 and made.counts["val"]["rows"] == 4
    assert "training runs the target by itself" in world.notes()
    assert "100.00% of" in world.notes()  # it was tried
    assert world.train() == 0, world.end("train")
    assert_same(world, stored)
    assert not list(world.run.phase("extract").rglob("*.safetensors"))


def test_the_type_of_the_states_is_that_in_which_they_would_be_stored(tmp_path: Path) -> None:
    """Float8 states are learned from with their loss, stored or not."""
    found = {}
    for mode in ("stored", "online"):
        world = make_world(
            tmp_path / mode, 40, training={**TRAIN, "epochs": 1}, mode=mode, dtype="float8"
        )
        assert world.extract() == 0 and world.train() == 0
        found[mode] = losses(world)
    assert found["online"] == pytest.approx(found["stored"], rel=1e-3)


def test_rolling_learns_the_same_with_a_window_on_disk(
    tmp_path: Path, stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "rolling")
    made = manifest.read(world.run, "extract")
    assert made is not None
    assert {Path(name).name.partition("-")[0] for name in made.outputs} == {"val"}
    real, sizes = rolling.Rolling.begin, []

    def begin(self: Any, *args: Any) -> int:
        end = real(self, *args)
        sizes.append(sum(p.stat().st_size for p in window_of(world).glob("train-*")))
        return end

    monkeypatch.setattr(rolling.Rolling, "begin", begin)
    assert world.train() == 0, world.end("train")
    assert_same(world, stored)
    assert len(sizes) >= 6 and 0 < max(sizes) <= WINDOW_GB * 1e9
    assert not window_of(world).exists()


def test_broken_off_while_it_extracts_it_extracts_only_what_is_missing(
    tmp_path: Path, stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "rolling")
    world.settings(**{**EXTRACT, "mode": "rolling", "shard_tokens": 100})
    real, written, rows = writer.write_shard, [], []

    def broken(path: Path, pieces: Any, metadata: Any, index: list[dict[str, Any]]) -> int:
        written.append(path)
        if len(written) == 6:
            raise OSError(28, "No space left on device")
        rows.extend(row["id"] for row in index)
        return real(path, pieces, metadata, index)

    monkeypatch.setattr(writer, "write_shard", broken)
    assert world.train() == 1 and "No space left" in world.end("train")[1]
    step = checkpoint(world)[0]["step"]
    assert 0 < step < checkpoint(stored)[0]["step"]
    kept = {row["id"] for p in window_of(world).glob("*.index.jsonl") for row in jsonl.rows(p)}
    assert kept
    rows.clear()
    assert world.train() == 0, world.end("train")
    assert f"goes on at step {step}" in world.notes("train") and "are there" in world.notes("train")
    first = world.notes("train").partition("extracts ")[2]
    assert not kept & set(rows[: int(first.partition(" ")[0])])
    assert_same(world, stored, whole=False)


def test_asked_to_stop_while_it_extracts(
    tmp_path: Path, stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the operator as by a signal, at once and with nothing lost."""
    world = world_of(tmp_path, "rolling")
    real, calls = rolling.Rolling._share, []

    def share(self: Any, batches: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            self._worker.stop.set()
        if len(calls) == 4:
            order = desired.Desired(seq=1, finish=("train",))
            desired.write(world.run.desired, order)
        return real(self, batches)

    monkeypatch.setattr(rolling.Rolling, "_share", share)
    assert world.train() == 0 and world.end("train")[0] == "stopped"
    step = checkpoint(world)[0]["step"]
    assert step > 0 and manifest.read(world.run, "train") is None
    assert world.train() == 0 and world.end("train")[0] == "done"
    made = manifest.read(world.run, "train")
    assert made is not None and made.early.startswith("ended at step ")
    assert checkpoint(world)[0]["step"] > step and not window_of(world).exists()


def test_rows_without_states_are_left_out_and_the_others_are_not_touched(tmp_path: Path) -> None:
    """Token 7 has no finite embedding. What is left is the same in all modes."""
    rows = make_rows(40, seed=2)
    poisoned = {name for name, row in rows.items() if 7 in row.ids[:50]}
    assert 3 < len(poisoned) < 20
    found = {}
    for mode in ("rolling", "online"):
        world = make_world(
            tmp_path / mode, rows=rows, training=TRAIN, mode=mode, max_bad_fraction=1.0, **EXTRACT
        )
        path = world.model / "model.safetensors"
        model = AutoModelForCausalLM.from_pretrained(world.model)
        model.model.embed_tokens.weight.data[7] = float("nan")
        path.unlink()
        model.save_pretrained(world.model)
        assert world.extract() == 0, world.end()
        assert world.train() == 0, world.end("train")
        assert "were put away" in world.notes("train")
        found[mode] = world
    drafter = found["online"].run.phase("train")
    (quarantine,) = drafter.glob("quarantine-*-0000.jsonl")
    assert {row["id"] for row in jsonl.rows(quarantine)} <= poisoned
    assert_same(found["online"], found["rolling"])
    world = found["online"]
    world.settings(**EXTRACT, mode="online", max_bad_fraction=0.02)
    assert world.extract() == 0
    for _ in range(2):  # and when it is tried again
        assert world.train() == 1 and "extract.max_bad_fraction = 0.02" in world.end("train")[1]
    assert not quarantine.exists() and list(drafter.glob("quarantine-*"))


def test_it_is_refused_where_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(tmp_path, "rolling")
    world.settings(**{**EXTRACT, "mode": "rolling", "rolling_window_gb": 0.00005})
    assert world.train() == 3
    assert "does not hold the rows of one step of 1 ranks" in world.end("train")[1]
    world.settings(**EXTRACT, mode="rolling")
    monkeypatch.setattr(rolling, "free_bytes", lambda _: 1000)
    assert world.train() == 3 and "the next window takes" in world.end("train")[1]
    model = AutoModelForCausalLM.from_pretrained(world.model)
    model.model.norm.weight.data *= 2
    model.save_pretrained(world.model)
    assert world.train() == 3 and "not the one that the extract phase" in world.end("train")[1]


# -- processes -------------------------------------------------------------------------------------


def start(world: World) -> subprocess.Popen[bytes]:
    """The phase as the supervisor runs it."""
    argv = [sys.executable, "-m", "eagle_tui.pipeline.train", str(world.run.root)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (world.run.root / "log").open("ab") as log:
        return subprocess.Popen(argv, env=env, stdout=log, stderr=log)


def wait_for_step(world: World, process: subprocess.Popen[bytes], step: int) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        ended = process.poll() is not None  # looked at first: what it told is then all there
        if any(e["e"] == "progress" and e["done"] >= step for e in world.events("train")):
            return
        assert not ended, (world.run.root / "log").read_text()
        time.sleep(0.02)
    raise AssertionError(f"step {step} was not reached: {(world.run.root / 'log').read_text()}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Six epochs from stored states, without a break."""
    world = world_of(tmp_path_factory.mktemp("whole"), "stored", epochs=6, validate_steps=1000)
    assert world.train() == 0
    return world


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["online", "rolling"])
def test_killed_in_the_middle_the_curve_goes_on(tmp_path: Path, mode: str, whole: World) -> None:
    world = world_of(tmp_path, mode, epochs=6, checkpoint_s=0.01, validate_steps=1000)
    process = start(world)
    wait_for_step(world, process, 15)
    process.send_signal(signal.SIGKILL)
    process.wait()
    step = checkpoint(world)[0]["step"]
    assert step > 0 and manifest.read(world.run, "train") is None
    assert world.train() == 0, world.end("train")
    assert f"goes on at step {step}" in world.notes("train")
    assert_same(world, whole, whole=False)


@pytest.mark.slow
def test_two_ranks_learn_what_one_does(tmp_path: Path) -> None:
    """Rows of equal length, so that two packs of a step are the one pack of the other training."""
    rows = {
        name: TokenRow(row.ids[:20], np.concatenate(([0] * 8, [1] * 12)).astype(np.uint8))
        for name, row in make_rows(60, longest=80).items()
        if len(row.ids) >= 20
    }
    alone = world_of(tmp_path / "alone", "stored", rows=rows, epochs=3)
    assert alone.train() == 0
    world = world_of(tmp_path / "two", "online", rows=rows, nproc=2, batch_tokens=60, epochs=3)
    assert start(world).wait(300) == 0, (world.run.root / "log").read_text()
    assert checkpoint(alone)[0]["step"] > 15
    assert_same(world, alone, whole=False)


@pytest.mark.slow
def test_two_ranks_and_then_one(tmp_path: Path) -> None:
    """Two ranks are killed with all they have started, and one takes over in the middle of an
    epoch: no row is lost or learned from twice."""
    world = world_of(
        tmp_path,
        "rolling",
        **{"nproc": 2, "batch_tokens": 60, "epochs": 30},
        **{"checkpoint_s": 0.01, "validate_steps": 1000},
    )
    process = start(world)
    wait_for_step(world, process, 8)
    ranks = ranks_of(process)
    process.kill()
    process.wait()
    wait_for("no rank is left", lambda: not any(rank.is_running() for rank in ranks))
    before = checkpoint(world)[0]
    world.training = {**world.training, "nproc": 1, "epochs": before["epoch"] + 2}
    world.settings(**EXTRACT, mode="rolling")
    assert world.train() == 0, world.end("train")
    after = checkpoint(world)[0]
    assert before["step"] >= 2 and after["epoch"] == before["epoch"] + 2
    assert after["rows"] == 35 * after["epoch"]
    assert bool(torch.isfinite(checkpoint(world)[1]["fc.weight"]).all())
