"""On a GPU: the same states as on the CPU, read only after they have come."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle_tui.pipeline.extraction.target import Capture
from eagle_tui.pipeline.hidden import HiddenRow
from eagle_tui.pipeline.training.teacher import LiveTarget

from .test_extract import stored, worst
from .world import make_rows, make_target, make_world

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_states_come_to_pinned_memory_and_are_those_of_the_cpu(tmp_path: Path) -> None:
    place = make_target(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    rows = list(make_rows(64, seed=1).values())
    wanted = [Capture(model, (2, 4, 5), "float32").states(rows[i : i + 16]) for i in (0, 16, 32)]
    capture = Capture(model.cuda(), (2, 4, 5), "float32")
    found = [capture.states(rows[i : i + 16]) for i in (0, 16, 32)]
    for one, other in zip(found, wanted, strict=True):
        one.ready()
        assert one.aux.is_pinned() and one.last.is_pinned() and one.lengths == other.lengths
        assert worst(one.aux, other.aux) < 1e-3 and worst(one.last, other.last) < 1e-3
        assert not one.bad.any()


def test_what_is_stored_from_a_gpu_is_what_is_stored_from_a_cpu(tmp_path: Path) -> None:
    small = {"batch_tokens": 300, "shard_tokens": 400, "dtype": "float32"}
    there = make_world(tmp_path / "cuda", 200, device="cuda", **small)
    here = make_world(tmp_path / "cpu", 200, device="cpu", **small)
    assert there.extract() == 0, there.end()
    assert here.extract() == 0, here.end()
    found, wanted = stored(there), stored(here)
    assert set(found) == set(wanted)
    for name, row in wanted.items():
        assert worst(found[name].aux, row.aux) < 1e-3, name
        assert worst(found[name].last, row.last) < 1e-3, name


def test_the_target_beside_the_training_gives_whole_states(tmp_path: Path) -> None:
    """On a stream of its own; they are there when they are handed over."""
    place = make_target(tmp_path / "model", hidden=256)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    rows = list(make_rows(32, seed=1).values())
    here = LiveTarget(model, (2, 4, 5), "float32", 300)
    with here.making():
        wanted = here.states(rows)
    there = LiveTarget(model.cuda(), (2, 4, 5), "float32", 300)
    for _ in range(20):
        with there.making():
            found = there.states(rows)
        for one, other in zip(found, wanted, strict=True):
            assert isinstance(one, HiddenRow) and isinstance(other, HiddenRow)
            assert one.aux.is_cuda and worst(one.aux.cpu(), other.aux) < 1e-3
