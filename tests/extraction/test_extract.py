"""One rank: what is stored is what transformers itself gives, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle_tui.pipeline.extraction import disk, plan, target
from eagle_tui.pipeline.extraction.states import to_float8
from eagle_tui.pipeline.hidden import (
    HiddenError,
    HiddenRow,
    find_hidden,
    iterate_hidden,
    open_hidden,
    restore,
)
from eagle_tui.pipeline.shards import TokenRow
from eagle_tui.rundir import desired, jsonl, manifest

from .world import VOCABULARY, World, make_rows, make_world


def stored(world: World) -> dict[str, HiddenRow]:
    """Id → stored row; fails when an id comes twice."""
    found: dict[str, HiddenRow] = {}
    for split in ("train", "val"):
        for path in find_hidden(world.run, split):
            shard = open_hidden(path)
            shard.verify()
            for entry, row in zip(shard.index(), shard.rows(), strict=True):
                assert entry["id"] not in found
                assert entry["tokens"] == len(row.ids)
                assert entry["supervised"] == int(row.mask.sum())
                found[entry["id"]] = row
    return found


def reference(world: World, layers: tuple[int, int, int]) -> dict[str, tuple[Any, Any, Any]]:
    """Id → (aux, last, logits) by transformers, each row alone."""
    model = AutoModelForCausalLM.from_pretrained(world.model, dtype=torch.float32).eval()
    found = {}
    for name, row in world.rows.items():
        with torch.inference_mode():
            out = model(torch.from_numpy(row.ids).long()[None], output_hidden_states=True)
        aux = torch.cat([out.hidden_states[i][0] for i in layers], dim=1)
        found[name] = (aux, out.hidden_states[-1][0], out.logits[0])
    return found


def worst(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Largest relative error of a row's norm."""
    return float(((found.float() - wanted).norm(dim=1) / wanted.norm(dim=1)).max())


def test_states_are_those_of_transformers_row_by_row(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", batch_tokens=300, shard_tokens=400, dtype="float32")
    assert world.extract() == 0, world.end()
    rows = stored(world)
    assert set(rows) == set(world.rows)
    for name, (aux, last, _) in reference(world, (2, 4, 5)).items():
        row = rows[name]
        np.testing.assert_array_equal(row.ids.numpy(), world.rows[name].ids)
        np.testing.assert_array_equal(row.mask.numpy(), world.rows[name].mask)
        assert worst(row.aux, aux) < 1e-5, name
        assert worst(row.last, last) < 1e-5, name


def test_the_last_state_gives_the_logits_by_the_head_alone(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 12, dtype="float32")
    assert world.extract() == 0
    model = AutoModelForCausalLM.from_pretrained(world.model, dtype=torch.float32)
    wanted = reference(world, (2, 4, 5))
    for name, row in stored(world).items():
        logits = model.lm_head(row.last.clone()).detach()
        assert worst(logits, wanted[name][2]) < 1e-5
    assert "100.00% of" in world.notes()


def test_hooks_equal_output_hidden_states_and_keep_three_layers_only(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 3)
    model = AutoModelForCausalLM.from_pretrained(world.model, dtype=torch.float32).eval()
    ids = torch.randint(0, VOCABULARY, (3, 17))
    with torch.inference_mode():
        wanted = model(ids, output_hidden_states=True).hidden_states
        parts, last = target.Capture(model, (0, 3, 7), "float32").forward(ids)
    for part, index in zip(parts, (0, 3, 7), strict=True):
        assert torch.equal(part, wanted[index])
    assert torch.equal(last, wanted[-1])
    assert not any(layer._forward_pre_hooks for layer in model.model.layers)


def test_padding_changes_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 3)
    model = AutoModelForCausalLM.from_pretrained(world.model, dtype=torch.float32).eval()
    capture = target.Capture(model, (2, 4, 5), "float32")
    rows = list(make_rows(6, seed=3).values())
    together = capture.states(rows)
    assert together.lengths == [len(row.ids) for row in rows] and len(set(together.lengths)) > 1
    start = 0
    for row in rows:
        alone = capture.states([row])
        end = start + len(row.ids)
        assert worst(together.aux[start:end], alone.aux) < 1e-5
        assert worst(together.last[start:end], alone.last) < 1e-5
        start = end
    assert start == len(together.aux)


@pytest.mark.parametrize(("dtype", "limit"), [("bfloat16", 0.004), ("float16", 6e-4)])
def test_stored_types(tmp_path: Path, dtype: str, limit: float) -> None:
    world = make_world(tmp_path / "run", 12, dtype=dtype)
    assert world.extract() == 0
    rows = stored(world)
    for name, (aux, last, _) in reference(world, (2, 4, 5)).items():
        assert str(rows[name].aux.dtype) == f"torch.{dtype}"
        assert 0 < worst(rows[name].aux, aux) < limit
        assert 0 < worst(rows[name].last, last) < limit


def test_float8_has_a_scale_for_each_row_and_third(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 12, dtype="float8")
    assert world.extract() == 0
    shard = open_hidden(find_hidden(world.run, "train")[0])
    assert shard.aux.dtype == torch.float8_e4m3fn
    assert shard.aux_scale is not None and shard.aux_scale.shape == (len(shard.ids), 3)
    rows = stored(world)
    for name, (aux, last, _) in reference(world, (2, 4, 5)).items():
        assert rows[name].aux.dtype == torch.bfloat16
        assert worst(rows[name].aux, aux) < 0.04
        assert worst(rows[name].last, last) < 0.04
    large = torch.randn(5, 12) * torch.tensor([1e4] * 4 + [1.0] * 4 + [1e-4] * 4)
    again = restore(*to_float8(large, 3))
    for third in range(3):
        part = slice(4 * third, 4 * third + 4)
        assert worst(again[:, part], large[:, part]) < 0.07
    assert torch.equal(restore(*to_float8(torch.zeros(2, 6), 3)), torch.zeros(2, 6).bfloat16())


def test_metadata_and_manifest_tell_where_the_states_come_from(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 20, layers=5)
    assert world.extract() == 0
    assert "layers 2, N/2 and N-3, the usual ones, are not three" in world.notes()
    shard = open_hidden(find_hidden(world.run, "val")[0])
    assert shard.metadata["layers"] == "1,2,4" and shard.layers == (1, 2, 4)
    assert shard.metadata["norm"] == "post" and shard.hidden_size == 64
    made = manifest.read(world.run, "extract")
    assert made is not None
    assert made.counts["train"]["rows"] == 18 and made.counts["val"]["rows"] == 2
    assert made.counts["target_hash"] == shard.metadata["target_hash"]
    figures = [e["values"] for e in world.events() if e["e"] == "metric"]
    assert set(figures[-1]) == {"tok_s", "write_mb_s", "write_wait"} and figures[-1]["tok_s"] > 0
    progress = [(e["done"], e["total"]) for e in world.events() if e["e"] == "progress"]
    assert progress[0] == (0, 20) and progress[-1] == (20, 20)


def test_a_shard_that_changed_on_the_disk_is_found(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 12)
    assert world.extract() == 0
    path = find_hidden(world.run, "train")[0]
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(HiddenError, match="has changed on the disk"):
        open_hidden(path).verify()
    path.write_bytes(data[:-1000])
    with pytest.raises(HiddenError, match="cannot be read"):
        open_hidden(path)
    with pytest.raises(HiddenError, match="no extraction has finished"):
        list(iterate_hidden(make_world(tmp_path / "other", 4).run, "train"))


def test_it_is_refused_before_the_first_byte_when_the_disk_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 40, dtype="bfloat16", keep_free_bytes=1000)
    need = disk.bytes_needed(plan.read_rows(world.run, None), 64, "bfloat16")
    monkeypatch.setattr("eagle_tui.pipeline.extraction.lead.free_bytes", lambda _: need + 999)
    assert world.extract() == 3
    outcome, reason = world.end()
    assert outcome == "refused"
    assert disk.gigabytes(need) in reason and disk.gigabytes(need + 999) in reason
    assert '"float8" needs' in reason and "(fits)" in reason
    samples = int(reason.partition("extract.samples = ")[2].partition(" ")[0])
    assert not list(world.run.phase("extract").rglob("*.safetensors"))

    # What it offers is true: so many rows fit, and one more does not.
    rows = plan.read_rows(world.run, samples)
    assert disk.bytes_needed(rows, 64, "bfloat16") <= need - 1
    more = plan.read_rows(world.run, samples + 1)
    assert disk.bytes_needed(more, 64, "bfloat16") > need - 1
    world.settings(dtype="bfloat16", samples=samples, keep_free_bytes=1000)
    assert world.extract() == 0
    size = sum(p.stat().st_size for p in world.run.phase("extract").rglob("*.safetensors"))
    assert size <= need


def test_the_estimate_is_close_to_what_is_written(tmp_path: Path) -> None:
    for dtype in ("float8", "bfloat16"):
        world = make_world(tmp_path / dtype, 60, dtype=dtype)
        need = disk.bytes_needed(plan.read_rows(world.run, None), 64, dtype)
        assert world.extract() == 0
        files = [p for p in world.run.phase("extract").rglob("shards-*/*") if p.is_file()]
        size = sum(p.stat().st_size for p in files)
        assert 0.95 * need < size < 1.05 * need


def test_bad_rows_are_put_away_with_the_reason(tmp_path: Path) -> None:
    rows = make_rows(40)
    rows["row-0003"] = TokenRow(
        np.array([1, VOCABULARY, 3], np.int32), np.array([0, 1, 1], np.uint8)
    )
    world = make_world(tmp_path / "run", rows=rows, max_bad_fraction=0.1)
    # Token 7 has no finite embedding: every row that holds it is poisoned.
    path = world.model / "model.safetensors"
    model = AutoModelForCausalLM.from_pretrained(world.model)
    model.model.embed_tokens.weight.data[7] = float("nan")
    path.unlink()
    model.save_pretrained(world.model)
    poisoned = {name for name, row in rows.items() if 7 in row.ids}
    world.settings(max_bad_fraction=1.0)
    assert 3 < len(poisoned) < 30
    assert world.extract() == 0, world.end()
    put_away = {r["id"]: r for r in jsonl.rows(world.run.phase("extract") / "quarantine.jsonl")}
    assert set(put_away) == poisoned | {"row-0003"}
    assert "outside the target's vocabulary of 128" in put_away["row-0003"]["reason"]
    name = min(poisoned - {"row-0003"})
    assert "are not finite" in put_away[name]["reason"]
    found = stored(world)
    assert set(found) == set(rows) - set(put_away)
    assert all(torch.isfinite(row.aux).all() for row in found.values())

    world.settings(max_bad_fraction=0.05, dtype="float32")
    assert world.extract() == 1
    assert "extract.max_bad_fraction = 0.05" in world.end()[1]


@pytest.mark.parametrize("dtype", ["float32", "float8"])
def test_states_that_are_not_the_targets_own_fail_the_phase(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a target normed its final state once more on the way to the head."""
    world = make_world(tmp_path / "run", 12, dtype=dtype)
    real = target.Capture.forward

    def shifted(self: Any, ids: torch.Tensor) -> Any:
        parts, last = real(self, ids)
        return parts, last.roll(1, dims=-1)

    monkeypatch.setattr(target.Capture, "forward", shifted)
    for _ in range(2):  # nothing was stored, so another attempt does not go on behind it
        assert world.extract() == 1
        assert "not what they should be" in world.end()[1]
        assert not list(world.run.phase("extract").rglob("*.safetensors"))


def test_rows_are_cut_where_training_stops_reading(tmp_path: Path) -> None:
    rows = make_rows(30)
    late = TokenRow(
        np.arange(50, dtype=np.int32), np.r_[np.zeros(40), np.ones(10)].astype(np.uint8)
    )
    rows = {"late": late, **rows}
    world = make_world(tmp_path / "run", rows=rows, dtype="float32", training={"max_tokens": 24})
    assert world.extract() == 0
    assert "extract.max_tokens = 24 leaves them out" in world.notes()
    whole = stored(world)
    world.settings(dtype="float32", max_tokens=24)
    assert world.extract() == 0, world.end()
    assert "leaves them out" not in world.notes()
    found = stored(world)
    nothing = {name for name, row in rows.items() if not row.mask[:24].any()}
    assert "late" in nothing and set(found) == set(rows) - nothing
    for name, row in found.items():
        assert row.ids.tolist() == rows[name].ids[:24].tolist()
        assert row.mask.tolist() == rows[name].mask[:24].tolist()
        assert worst(row.aux, whole[name].aux[:24]) < 1e-5
        assert worst(row.last, whole[name].last[:24]) < 1e-5


def test_a_first_batch_that_says_nothing_leaves_the_check_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows(30, longest=40)
    longest = max(rows.values(), key=lambda row: len(row.ids))
    world = make_world(tmp_path / "run", rows=rows, batch_tokens=len(longest.ids), dtype="float32")
    real, calls = target.Capture.forward, []

    def broken(self: Any, ids: torch.Tensor) -> Any:
        parts, last = real(self, ids)
        calls.append(1)
        return parts, last * torch.nan if len(calls) == 1 else last.roll(1, dims=-1)

    world.settings(max_bad_fraction=1.0, batch_tokens=len(longest.ids), dtype="float32")
    monkeypatch.setattr(target.Capture, "forward", broken)
    assert world.extract() == 1
    assert "not what they should be" in world.end()[1] and len(calls) == 2


def test_a_full_disk_ends_with_a_sentence_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 40, shard_tokens=200, dtype="float32")
    from eagle_tui.pipeline.extraction import writer

    real, calls = writer.write_shard, []

    def full(*args: Any) -> int:
        calls.append(1)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        return real(*args)

    world.settings(shard_tokens=200, batch_tokens=100, dtype="float32")
    monkeypatch.setattr(writer, "write_shard", full)
    assert world.extract() == 1
    assert "No space left on device" in world.end()[1]
    monkeypatch.undo()
    assert world.extract() == 0
    assert "goes on where it was" in world.notes()
    assert set(stored(world)) == set(world.rows)


def test_new_settings_replace_the_old_states_only_when_done(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 20, dtype="float32")
    assert world.extract() == 0
    before = find_hidden(world.run, "train")
    world.settings(dtype="bfloat16", layers=[1, 2, 3])
    assert world.extract() == 0
    assert find_hidden(world.run, "train")[0].parent != before[0].parent
    assert not before[0].exists()
    assert len(list(world.run.phase("extract").glob("shards-*"))) == 1
    # Nothing to do: the same states stay.
    again = find_hidden(world.run, "train")
    assert world.extract() == 0 and find_hidden(world.run, "train") == again


def test_a_worker_that_was_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 20, dtype="float32")
    assert world.extract() == 0
    path = find_hidden(world.run, "train")[0]
    ids = {row["id"] for row in open_hidden(path).index()}
    path.unlink()  # its index is there, as when killed between the two
    (path.parent / ".train-00009.safetensors.x.tmp").write_bytes(b"half")
    world.run.manifest("extract").unlink()
    assert world.extract() == 0
    assert f"goes on where it was: {20 - len(ids)} rows are stored" in world.notes()
    assert set(stored(world)) == set(world.rows)
    assert not list(path.parent.glob(".*"))


def test_ended_early_it_is_done_with_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 40, batch_tokens=100, dtype="float32")
    monkeypatch.setattr("eagle_tui.pipeline.extraction.lead.TELL_S", 0.0)
    real, calls = target.Capture.states, []

    def states(self: Any, rows: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            desired.write(world.run.desired, desired.Desired(seq=1, finish=("extract",)))
        return real(self, rows)

    monkeypatch.setattr(target.Capture, "states", states)
    assert world.extract() == 0 and world.end()[0] == "done"
    rows = stored(world)
    assert 0 < len(rows) < 40
    made = manifest.read(world.run, "extract")
    assert made is not None
    assert made.early == f"{40 - len(rows)} of 40 rows were left out"
    # Asked for again, it goes on from there.
    world.run.desired.unlink()
    monkeypatch.undo()
    assert world.extract() == 0
    assert set(stored(world)) == set(world.rows)


def test_json_of_the_index_is_one_line_a_row(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 10)
    assert world.extract() == 0
    index = find_hidden(world.run, "train")[0].with_suffix("").with_suffix(".index.jsonl")
    for line in index.read_bytes().splitlines():
        assert set(json.loads(line)) == {"id", "dataset", "tokens", "supervised"}
