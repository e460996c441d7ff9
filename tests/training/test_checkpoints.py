"""Checkpoints: what counts, what is kept, what a kill leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from eagle_tui.pipeline.training import checkpoints
from eagle_tui.pipeline.training.checkpoints import CheckpointError, Checkpoints, State
from eagle_tui.pipeline.training.flops import peak_of

OPTIMIZER = {"adamw/fc.weight/step": torch.tensor(1.0)}


def state(step: int, **more: object) -> State:
    body = {"epoch": 0, "packs": step, "step": step, "tokens": 0, "rows": 0, "identity": {}}
    return State.model_validate({**body, **more})


def weights(value: float) -> dict[str, torch.Tensor]:
    return {"fc.weight": torch.full((2, 2), value)}


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(state(1), weights(1.0), OPTIMIZER, best=True)
    kept.save(state(2), weights(2.0), OPTIMIZER, best=False)
    kept.save(state(3), weights(3.0), OPTIMIZER, best=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *("index.json", "step-00000001", "step-00000003")
    ]
    assert kept.best()[1]["fc.weight"][0, 0] == 1.0
    found = kept.last()
    assert found is not None and found[0].step == 3 and found[1]["fc.weight"][0, 0] == 3.0


def test_the_same_step_judged_since_keeps_its_weights(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(state(1), weights(1.0), OPTIMIZER, best=False)
    kept.save(state(1, accept=2.0), weights(1.0), OPTIMIZER, best=True)
    assert kept.best()[0].accept == 2.0 and kept.index().best == kept.index().last


@pytest.mark.parametrize("before", [None, 4])
def test_what_a_killed_training_left_uncounted_is_not_taken_for_this_one(
    tmp_path: Path, before: int | None
) -> None:
    """It was killed between the directory and the index; then settings changed."""
    kept = Checkpoints(tmp_path)
    if before is not None:
        kept.save(state(before), weights(4.0), OPTIMIZER, best=False)
    kept._write(
        tmp_path / "step-00000005",
        state(5, identity={"optimizer": "muon"}),
        {"model.safetensors": weights(-1.0), "optimizer.safetensors": OPTIMIZER},
    )
    kept.save(state(5), weights(5.0), OPTIMIZER, best=False)
    found = kept.last()
    assert found is not None and found[0] == state(5)
    assert found[1]["fc.weight"][0, 0] == 5.0


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("28")])
def test_one_that_does_not_fit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(state(1), weights(1.0), OPTIMIZER, best=False)
    before = sorted(tmp_path.rglob("*"))

    def full(tensors: object, path: Path, **more: object) -> None:
        path.write_bytes(b"half")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", full)
        with pytest.raises((CheckpointError, OSError), match=r"No space|make room"):
            kept.save(state(2), weights(2.0), OPTIMIZER, best=False)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_killed_ones_left_is_gone_before_the_next_needs_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(state(1), weights(1.0), OPTIMIZER, best=False)
    for name in (".step-00000002.tmp", "step-00000003"):  # half-written; whole, but not counted
        (tmp_path / name).mkdir()
    seen: list[list[str]] = []
    own = checkpoints.save_file

    def looking(*args: Any, **more: Any) -> None:
        seen.append(sorted(p.name for p in tmp_path.iterdir()))
        own(*args, **more)

    monkeypatch.setattr(checkpoints, "save_file", looking)
    kept.save(state(4), weights(4.0), OPTIMIZER, best=False)
    assert seen[0] == [".step-00000004.tmp", "index.json", "step-00000001"]


def test_a_broken_one_is_named(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    path = kept.save(state(1), weights(1.0), OPTIMIZER, best=False)
    (path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        kept.last()


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("NVIDIA H200", 0.989e15),
        ("NVIDIA GH200 480GB", 0.989e15),
        ("NVIDIA H20", 0.148e15),
        ("NVIDIA A100-SXM4-80GB", 0.312e15),
        ("NVIDIA A10", 0.125e15),
        ("NVIDIA A10G", 0.07e15),
        ("NVIDIA L4", 0.121e15),
        ("NVIDIA L40S", 0.362e15),
        ("NVIDIA L40", 0.181e15),
        ("NVIDIA H100 PCIe", 0.756e15),
        ("NVIDIA H100 80GB HBM3", 0.989e15),
        ("NVIDIA RTX A1000", None),
    ],
)
def test_what_a_device_can_do_goes_by_whole_words(name: str, flops: float | None) -> None:
    assert peak_of(name) == flops
