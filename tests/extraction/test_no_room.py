"""A device without memory for a moment: no row is lost by it for good, and no phase is locked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from eagle_tui.pipeline.extraction.target import Capture
from eagle_tui.pipeline.shards import TokenRow
from eagle_tui.rundir import jsonl, manifest

from .test_extract import stored
from .world import World, make_world

TRAIN = {
    **{"max_steps": 3, "batch_tokens": 256, "max_tokens": 64, "draft_vocab": 64},
    **{"ttt_steps": 2, "epochs": 1, "device": "cpu", "dtype": "float32"},
}


def fill(patch: pytest.MonkeyPatch, longest: int = 0) -> None:
    """Another process holds the memory: rows longer than that have no room."""
    own = Capture.flat

    def flat(self: Capture, rows: Sequence[TokenRow]) -> object:
        if any(len(row.ids) > longest for row in rows):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return own(self, rows)

    patch.setattr(Capture, "flat", flat)


def put_away(world: World) -> set[str]:
    path = world.run.phase("extract") / "quarantine.jsonl"
    return {str(row["id"]) for row in jsonl.rows(path)}


def test_the_next_attempt_extracts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world(tmp_path / "run", 40, batch_tokens=256, dtype="float32")
    long = {name for name, row in world.rows.items() if len(row.ids) > 40}
    with monkeypatch.context() as patch:
        fill(patch, longest=40)
        assert world.extract() == 1
        assert "extract.max_bad_fraction" in world.end()[1] and put_away(world) <= long
    assert world.extract() == 0, world.end()
    assert set(stored(world)) == set(world.rows) and not put_away(world)


def test_those_that_a_finished_attempt_left_out_are_tried_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 40, dtype="float32", max_bad_fraction=1.0)
    long = {name for name, row in world.rows.items() if len(row.ids) > 40}
    with monkeypatch.context() as patch:
        fill(patch, longest=40)
        assert world.extract() == 0, world.end()
    assert put_away(world) == long and set(stored(world)) == set(world.rows) - long
    assert world.extract() == 0, world.end()
    assert set(stored(world)) == set(world.rows)


@pytest.mark.parametrize("mode", ["online", "rolling"])
def test_training_learns_from_them_in_the_next_attempt(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 40, training=TRAIN, mode=mode, dtype="float32")
    assert world.extract() == 0, world.end()
    with monkeypatch.context() as patch:
        fill(patch)
        assert world.train() == 1 and "max_bad_fraction" in world.end("train")[1]
    assert world.train() == 0, world.end("train")
    assert manifest.read(world.run, "train") is not None
    assert not [row for path in world.run.root.rglob("quarantine-*") for row in jsonl.rows(path)]
