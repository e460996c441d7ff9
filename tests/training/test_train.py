"""The phase in one process: learning, events, refusals, stopping and going on."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from eagle_tui.pipeline.drafter.module import Drafter, KVCache
from eagle_tui.pipeline.drafter.target_weights import TargetWeights
from eagle_tui.pipeline.training import checkpoints, loop, report, session
from eagle_tui.pipeline.training.session import train
from eagle_tui.pipeline.worker import Failed, Refused, Stopped
from eagle_tui.rundir import atomic, manifest

from .world import VOCABULARY, WIDTH, World, distance, make_world

LENGTHS = [16, 24, 20, 33, 18, 40, 27, 22] * 3


@pytest.fixture(autouse=True)
def report_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_EVERY_S", 0.0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = make_world(tmp_path)
    made.extract(LENGTHS)
    return made


def metrics(events: list[dict[str, Any]]) -> list[dict[str, float]]:
    return [e["values"] for e in events if e["e"] == "metric"]


def stop_after(monkeypatch: pytest.MonkeyPatch, stop: threading.Event, steps: int) -> None:
    """Set `stop` as SIGTERM would, after so many steps."""
    original, done = loop.Loop._step, [0]

    def counted(self: loop.Loop, batch: Any) -> None:
        original(self, batch)
        done[0] += 1
        if done[0] == steps:
            stop.set()

    monkeypatch.setattr(loop.Loop, "_step", counted)


def test_it_learns_and_tells_how_far_it_is(world: World) -> None:
    world.configure(epochs=12)
    events = world.train()
    values = metrics(events)
    assert values[-1]["loss"] < 0.5 * values[0]["loss"]
    assert values[-1]["acc_0"] > 0.8 > values[0]["acc_0"]
    assert set(values[0]) == {
        *("loss", "lr", "acc_0", "acc_1", "acc_2", "accept"),
        *("tok_s", "data_wait", "mfu", "grad_norm"),
    }
    assert values[0]["mfu"] is None and values[0]["accept"] is None
    assert values[-1]["accept"] > 2 and 0 <= values[-1]["data_wait"] <= 1
    progress = [e for e in events if e["e"] == "progress"]
    assert progress[-1]["done"] == progress[-1]["total"] and progress[-1]["unit"] == "steps"
    made = manifest.read(world.run, "train")
    assert made is not None and made.early == ""
    assert made.counts["steps"] == made.counts["of_steps"] == progress[-1]["total"]
    assert made.counts["rows"] == 12 * len(LENGTHS)
    assert made.counts["tokens"] == 12 * sum(LENGTHS)
    assert made.counts["accept"] > 2.2 and set(made.counts["accept_by_dataset"]) == {"a", "b"}
    assert made.counts["coverage"] > 0.8
    assert (
        made.inputs.keys() == manifest.inputs_of(world.worker(2).config, world.run, "train").keys()
    )
    notes = world.notes()
    assert "covers" in notes and "accept length" in notes and "exported the checkpoint" in notes


def test_what_is_exported_is_the_best_checkpoint_and_passes_its_check(world: World) -> None:
    world.train()
    made = manifest.read(world.run, "train")
    assert made is not None
    for name in made.outputs:
        assert (world.drafter / name).is_file()
    target = TargetWeights.open(world.root / "target")
    drafter = Drafter.load(world.drafter / "export", target)
    best = world.weights("best")
    assert distance(drafter.state_dict(), best) == 0.0
    body = atomic.read_json(world.drafter / "export" / "config.json")
    assert body["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 3, 4]
    other = atomic.read_json(world.drafter / "export-speculators" / "config.json")
    assert other["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    spoken = load_file(world.drafter / "export-speculators" / "model.safetensors")
    assert torch.equal(spoken["layers.0.mlp.up_proj.weight"], best["midlayer.mlp.up_proj.weight"])
    assert spoken["embed_tokens.weight"].shape == (VOCABULARY, WIDTH)
    logits, _ = drafter.prefill(
        torch.randn(3, 3 * WIDTH), torch.tensor([1, 2, 3]), torch.arange(3), KVCache()
    )
    assert logits.shape == (3, 40) and bool(torch.isfinite(logits).all())


def test_stopped_and_resumed_equals_uninterrupted(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_world(tmp_path / "whole")
    whole.extract(LENGTHS)
    expected = metrics(whole.train())
    with monkeypatch.context() as patch:
        worker = world.worker(1)
        stop_after(patch, worker.stop, 5)
        with pytest.raises(Stopped):
            train(worker)
        worker.log.close()
    assert manifest.read(world.run, "train") is None
    assert world.state()["step"] == 5
    second = metrics(world.train(2))
    assert "goes on at step 5" in world.notes(2)
    losses = [v["loss"] for v in metrics(world.events(1)) + second]
    assert losses == [v["loss"] for v in expected]
    assert distance(world.weights(), whole.weights()) == 0.0
    assert world.state()["rows"] == whole.state()["rows"] == 2 * len(LENGTHS)


def test_a_changed_draft_vocabulary_begins_afresh(world: World) -> None:
    world.train(1)
    manifest_path = world.run.manifest("train")
    manifest_path.unlink()
    world.configure(draft_vocab=30)
    world.train(2)
    assert "begins afresh: changed since: draft vocabulary" in world.notes(2)
    assert world.weights()["d2t"].shape == (30,)


def test_more_epochs_go_on_from_where_it_ended(world: World) -> None:
    world.train(1)
    before = world.state()["step"]
    world.configure(epochs=3)
    world.train(2)
    assert f"goes on at step {before}" in world.notes(2)
    assert world.state()["step"] > before and world.state()["rows"] == 3 * len(LENGTHS)


def finish_after(world: World, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """The operator's order comes after so many steps."""
    original, done = loop.Loop._step, [0]

    def counted(self: loop.Loop, batch: Any) -> None:
        original(self, batch)
        done[0] += 1
        if done[0] == steps:
            atomic.write_json(world.run.desired, {"seq": 1, "finish": ["train"]})

    monkeypatch.setattr(loop.Loop, "_step", counted)


def test_ended_by_the_operator_it_judges_and_exports_what_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_after(world, monkeypatch, 3)
    world.train()
    made = manifest.read(world.run, "train")
    assert made is not None and 3 <= made.counts["steps"] < made.counts["of_steps"]
    assert made.early == f"ended at step {made.counts['steps']} of {made.counts['of_steps']}"
    assert made.counts["accept"] > 0 and made.counts["best_step"] == made.counts["steps"]
    assert (world.drafter / "export" / "model.safetensors").is_file()


def test_ended_before_the_first_step_there_is_nothing_to_export(world: World) -> None:
    atomic.write_json(world.run.desired, {"seq": 1, "finish": ["train"]})
    with pytest.raises(Refused, match="before its first step"):
        world.train()
    assert not (world.drafter / "export").exists()
    world.run.desired.unlink()
    world.train(2)
    assert manifest.read(world.run, "train") is not None


def test_it_stops_early_when_validations_get_no_better(world: World) -> None:
    world.configure(epochs=50, patience=2, validate_steps=2, learning_rate=1e-9)
    world.train()
    made = manifest.read(world.run, "train")
    assert made is not None and made.counts["ended"] == "no better after 2 validations"
    assert made.counts["steps"] <= 8 < made.counts["of_steps"] and made.early == ""


def test_an_early_stop_that_was_killed_before_its_export_stands(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure(epochs=50, patience=2, validate_steps=2, learning_rate=1e-9)
    with monkeypatch.context() as patch:
        patch.setattr(session, "publish", _killed)
        with pytest.raises(KeyboardInterrupt):
            world.train()
    steps = world.state()["step"]
    world.train(2)
    made = manifest.read(world.run, "train")
    assert made is not None and made.counts["ended"] == "no better after 2 validations"
    assert made.counts["steps"] == steps


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_number_of_steps_can_be_set(world: World) -> None:
    world.configure(max_steps=3)
    world.train()
    assert world.state()["step"] == 3


@pytest.mark.parametrize("vocabulary", [None, VOCABULARY])
def test_the_whole_vocabulary_needs_no_map(world: World, vocabulary: int | None) -> None:
    del world.settings["draft_vocab"]
    world.configure(max_steps=2, **({"draft_vocab": vocabulary} if vocabulary else {}))
    world.train()
    names = load_file(world.drafter / "export" / "model.safetensors").keys()
    assert "d2t" not in names and "t2d" not in names


def test_muon_learns(world: World) -> None:
    world.configure(optimizer="muon", epochs=8)
    values = metrics(world.train())
    assert values[-1]["loss"] < 0.6 * values[0]["loss"]


def test_without_held_out_rows_the_last_checkpoint_is_exported(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.extract(LENGTHS, val=0)
    world.train()
    made = manifest.read(world.run, "train")
    assert made is not None and made.counts["accept"] is None
    assert made.counts["best_step"] == made.counts["steps"]


def test_no_supervised_token_is_refused_with_an_example(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.extract(LENGTHS, mask=False)
    with pytest.raises(
        Refused, match=r"24 rows have fewer than 2.*for example row train-00000:0 of a"
    ):
        world.train()


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"layers": ""}, "does not say of which layers"),
        ({"layers": "2,4"}, "does not say of which layers"),
        ({"norm": "pre"}, "after the final norm"),
        ({"layers": "0,4,5"}, "from 1 to 7"),
        ({"layers": "2,4,8"}, "from 1 to 7"),
    ],
)
def test_unknown_conventions_are_refused(
    tmp_path: Path, metadata: dict[str, str], words: str
) -> None:
    world = make_world(tmp_path)
    world.extract(LENGTHS, metadata=metadata)
    with pytest.raises(Refused, match=words):
        world.train()


def test_states_that_are_not_finite_are_refused_with_their_row(world: World) -> None:
    path = next(world.run.phase("extract").rglob("train-00001.safetensors"))
    data = bytearray(path.read_bytes())
    header = int.from_bytes(data[:8], "little")
    start = json.loads(data[8 : 8 + header])["aux"]["data_offsets"][0] + 8 + header
    data[start : start + 4] = b"\x00\x00\xc0\x7f"  # a float32 NaN
    path.write_bytes(bytes(data))
    with pytest.raises(Refused, match=r"row train-00001:0 of a .*aux states that are not finite"):
        world.train()


def test_a_gradient_that_is_not_finite_fails_and_keeps_the_checkpoint(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "clip", lambda drafter, limit: torch.tensor(float("nan")))
    with pytest.raises(Failed, match="gradient was not finite"):
        world.train()


def test_more_draft_steps_than_were_taught_are_told(world: World) -> None:
    text = world.run.config.read_text().replace('"train"]', '"train", "bench"]')
    world.run.config.write_text(f"{text}[bench]\nsteps = [2, 5]\n")
    world.train()
    assert "train.ttt_steps = 3, but bench.steps goes up to 5" in world.notes()


def test_a_full_disk_keeps_the_checkpoint_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure(max_steps=2)
    world.train()
    before = world.weights()
    world.configure(max_steps=6)

    def full(*_: Any, **__: Any) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(Failed, match=r"step-00000006: cannot be written .*No space left"):
        world.train(2)
    assert world.state()["step"] == 2 and distance(before, world.weights()) == 0
    monkeypatch.undo()
    world.train(3)
    assert world.state()["step"] == 6


def test_states_of_another_target_are_doubted(world: World) -> None:
    target = load_file(world.root / "target" / "model.safetensors")
    target["lm_head.weight"] = target["lm_head.weight"].flip(0).contiguous()
    from safetensors.torch import save_file

    save_file(target, world.root / "target" / "model.safetensors")
    world.configure(max_steps=1)
    world.train()
    assert "of another target or another norm" in world.notes()
