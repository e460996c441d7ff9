"""Phase 3: masks, the one end token, shuffle, split, shards, and what a crash leaves."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from eagle_tui.config import load_config
from eagle_tui.config.model import MergeSection
from eagle_tui.pipeline import shards
from eagle_tui.pipeline.merge import body, coverage
from eagle_tui.pipeline.shards import ShardError, TokenRow
from eagle_tui.pipeline.training_rows import Dropped, RowMaker
from eagle_tui.pipeline.worker import main
from eagle_tui.rundir import jsonl, manifest
from eagle_tui.rundir.paths import RunDir

EOS = 257  # <|im_end|> of the test tokenizer: 256 bytes, then the added tokens


def response(n: int, dataset: str = "b", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"{dataset}{n}",
        "dataset": dataset,
        "prompt_ids": [1, 2, n],
        "output_ids": [10 + n % 50] * (1 + n % 7) + [EOS],
        "reasoning": "",
        "content": "x",
        "state": "complete",
        **changes,
    }


def native(n: int, dataset: str = "a", **changes: Any) -> dict[str, Any]:
    row = {"id": f"{dataset}{n}", "token_ids": [5, n, 6, 7, EOS], "spans": [[2, 5]]}
    return {**row, "dataset": dataset, **changes}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(jsonl.encode(row) for row in rows))


@pytest.fixture
def merge_dir(run_dir: Any) -> Any:
    def make(
        responses: Sequence[dict[str, Any]] = (),
        natives: Sequence[dict[str, Any]] = (),
        settings: str = "",
    ) -> Path:
        root: Path = run_dir(
            {
                "a": 'source = "a.jsonl"\nkind = "native"',
                "b": 'source = "b.jsonl"',
            },
            extra=f"[merge]\n{settings}\n",
        )
        write(root / "prompts" / "a.jsonl", natives)
        write(root / "responses" / "b.jsonl", responses)
        return root

    return make


def notes(root: Path) -> str:
    """Everything that the newest attempt told."""
    newest = sorted((root / "events").glob("merge-*.jsonl"))[-1]
    return "\n".join(e["text"] for e in jsonl.rows(newest) if e["e"] == "note")


def merge(root: Path) -> int:
    return main("merge", body, [str(root)])


def rows(root: Path, split: Any) -> list[tuple[str, list[int], list[int]]]:
    run = RunDir.at(root)
    return [
        (entry["id"], row.ids.tolist(), row.mask.tolist())
        for path in shards.find_shards(run, split)
        for shard in [shards.open_shard(path)]
        for entry, row in zip(shard.index(), shard.rows(), strict=True)
    ]


def all_rows(root: Path) -> dict[str, tuple[list[int], list[int]]]:
    return {i: (ids, mask) for s in ("train", "val") for i, ids, mask in rows(root, s)}


def made(root: Path) -> manifest.Manifest:
    found = manifest.read(RunDir.at(root), "merge")
    assert found is not None
    return found


def test_masks_of_native_and_generated_rows(merge_dir: Any) -> None:
    root = merge_dir([response(3)], [native(9)])
    assert merge(root) == 0
    found = all_rows(root)
    assert found["b3"] == ([1, 2, 3, 13, 13, 13, 13, EOS], [0, 0, 0, 1, 1, 1, 1, 1])
    assert found["a9"] == ([5, 9, 6, 7, EOS], [0, 0, 1, 1, 1])
    counts = made(root).counts
    assert counts["train"] == {"rows": 2, "tokens": 13, "supervised": 8}
    assert counts["datasets"]["b"]["longest"] == 8
    assert counts["vocabulary"]["distinct"] == 4


def maker(**settings: Any) -> RowMaker:
    return RowMaker(frozenset({EOS, 300}), EOS, MergeSection(**settings))


@pytest.mark.parametrize(
    ("output", "state", "expected"),
    [
        ([7, EOS], "complete", [7, EOS]),
        ([7, EOS, EOS], "complete", [7, EOS]),
        ([7, 300], "complete", [7, 300]),
        ([7, EOS, 300], "complete", [7, EOS]),
        ([7], "complete", [7, EOS]),
        ([EOS], "complete", [EOS]),
        ([7, 8], "truncated", [7, 8]),
    ],
)
def test_exactly_one_end_of_turn(output: list[int], state: str, expected: list[int]) -> None:
    row = maker().make(response(0, output_ids=output, state=state))
    assert row.ids.tolist() == [1, 2, 0, *expected]
    assert row.mask.tolist() == [0, 0, 0] + [1] * len(expected)


@pytest.mark.parametrize(
    ("row", "settings", "why"),
    [
        (response(0, state="no_answer"), {}, "state no_answer"),
        (response(0, state="truncated"), {"include": ["complete"]}, "state truncated"),
        (response(0, output_ids=[]), {}, "empty"),
        (response(0, prompt_ids=None), {}, "empty"),
        (response(0, output_ids=[-1]), {}, "output_ids are no token ids"),
        (response(0, output_ids=["x"]), {}, "output_ids are no token ids"),
        (response(0, output_ids=[[1], [2]]), {}, "output_ids are no token ids"),
        (response(0, output_ids=[2**63]), {}, "output_ids are no token ids"),
        (response(6), {"max_tokens": 8}, "longer than max_tokens"),
        (native(0, spans=[]), {}, "nothing to predict"),
    ],
)
def test_dropped(row: dict[str, Any], settings: dict[str, Any], why: str) -> None:
    with pytest.raises(Dropped, match=why):
        maker(**settings).make(row)


def test_dropped_rows_are_counted_and_seen_rows_once(merge_dir: Any) -> None:
    root = merge_dir([response(1), response(1), response(2, state="loop"), {"x": 1}])
    assert merge(root) == 0
    assert made(root).counts["dropped"] == {"seen before": 1, "state loop": 1, "broken line": 1}


def test_responses_whose_prompt_is_no_longer_there_are_left_out(merge_dir: Any) -> None:
    """Fewer samples, or another system prompt: the responses of before stay on the disk."""
    root = merge_dir([response(n) for n in range(9)], [native(9)])
    prompts = root / "prompts" / "b.jsonl"
    write(prompts, [{"id": f"b{n}", "prompt_ids": [1, 2, n]} for n in (2, 5, 77)])
    assert merge(root) == 0
    assert set(all_rows(root)) == {"b2", "b5", "a9"}
    assert made(root).counts["datasets"]["b"]["dropped"] == {"prompt no longer there": 7}
    assert "b: 7 of 9 rows left out: 7 prompt no longer there" in notes(root)
    write(prompts, [])
    assert merge(root) == 0 and set(all_rows(root)) == {"a9"}


def test_broken_prompts_are_told_with_their_place(merge_dir: Any, capsys: Any) -> None:
    root = merge_dir([response(1)])
    (root / "prompts" / "b.jsonl").write_bytes(b"{}\n")
    assert merge(root) == 3
    assert "b.jsonl: byte 0: a prompt needs an id; run prepare again" in capsys.readouterr().err


def test_a_torn_tail_is_left_to_the_writer(merge_dir: Any) -> None:
    root = merge_dir([response(1)])
    with (root / "responses" / "b.jsonl").open("ab") as file:
        file.write(b'{"id": "b2", "prompt')
    assert merge(root) == 0
    assert set(all_rows(root)) == {"b1"}


def test_nothing_to_predict_is_refused_with_an_example(merge_dir: Any, capsys: Any) -> None:
    root = merge_dir([], [native(4, spans=[]), native(5, spans=[])])
    assert merge(root) == 3
    said = capsys.readouterr().err
    assert "No token of the 2 rows is to be predicted" in said
    assert "row a4 of a (" in said
    assert not list((root / "tokens").glob("shards-*"))


def test_nothing_at_all_is_refused(merge_dir: Any, capsys: Any) -> None:
    root = merge_dir()
    (root / "responses" / "b.jsonl").unlink()
    assert merge(root) == 3
    assert "Run the earlier phases first" in capsys.readouterr().err


def test_order_depends_on_seed_and_ids_only(merge_dir: Any) -> None:
    many = [response(n) for n in range(200)]
    root = merge_dir(many, settings="seed = 1\nval_fraction = 0.1")
    assert merge(root) == 0
    first = rows(root, "train"), rows(root, "val")
    assert [i for i, _, _ in first[0]] != sorted(i for i, _, _ in first[0])
    random.Random(0).shuffle(many)
    write(root / "responses" / "b.jsonl", many)
    assert merge(root) == 0
    assert (rows(root, "train"), rows(root, "val")) == first
    root = merge_dir(many, settings="seed = 2\nval_fraction = 0.1")
    assert merge(root) == 0
    assert rows(root, "train") != first[0]


def test_split_takes_from_every_dataset_alike(merge_dir: Any) -> None:
    root = merge_dir(
        [response(n) for n in range(100)],
        [native(n) for n in range(50)],
        "val_fraction = 0.1",
    )
    assert merge(root) == 0
    datasets = made(root).counts["datasets"]
    assert (datasets["b"]["val"]["rows"], datasets["a"]["val"]["rows"]) == (10, 5)
    assert not {i for i, _, _ in rows(root, "train")} & {i for i, _, _ in rows(root, "val")}
    assert "no row is held out" not in notes(root)
    root = merge_dir([response(n) for n in range(9)], settings="val_fraction = 0")
    assert merge(root) == 0
    assert rows(root, "val") == []
    assert "no row is held out" in notes(root)


def test_a_dataset_is_held_out_by_count_or_whole(merge_dir: Any) -> None:
    root = merge_dir([response(n) for n in range(100)], [native(n) for n in range(50)])
    config = RunDir.at(root).config
    text = config.read_text().replace('source = "b.jsonl"', 'source = "b.jsonl"\nhold_out = 20')
    config.write_text(text.replace('kind = "native"', 'kind = "native"\nhold_out = "all"'))
    assert merge(root) == 0
    datasets = made(root).counts["datasets"]
    assert [datasets["b"][split]["rows"] for split in ("train", "val")] == [80, 20]
    assert [datasets["a"][split]["rows"] for split in ("train", "val")] == [0, 50]
    # Another number makes the merge stale, and no number keeps what was made before there was one.
    config.write_text(text.replace("hold_out = 20", "hold_out = 30"))
    changed = manifest.inputs_of(load_config(config), RunDir.at(root), "merge")
    assert "hold_out" in manifest.stale_reason(made(root), changed)


def test_shards_are_cut_by_tokens(merge_dir: Any) -> None:
    root = merge_dir(
        [response(n) for n in range(100)], settings="shard_tokens = 50\nval_fraction = 0"
    )
    assert merge(root) == 0
    paths = shards.find_shards(RunDir.at(root), "train")
    assert [p.name for p in paths] == [f"train-{n:05d}.safetensors" for n in range(len(paths))]
    assert len(paths) > 5
    assert all(50 <= len(shards.open_shard(p).ids) < 50 + 12 for p in paths[:-1])
    total = made(root).counts["train"]["tokens"]
    assert sum(len(r.ids) for r in shards.iterate(RunDir.at(root), "train")) == total
    tensors = load_file(paths[0])
    assert {k: str(v.dtype) for k, v in tensors.items()} == {
        "input_ids": "int32",
        "loss_mask": "uint8",
        "offsets": "int64",
    }


def test_a_failed_merge_leaves_the_old_one(merge_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = merge_dir([response(n) for n in range(20)])
    assert merge(root) == 0
    before = all_rows(root)
    write(root / "responses" / "b.jsonl", [response(n) for n in range(500)])
    add, added = shards.ShardWriter.add, 0

    def failing(self: Any, *args: Any) -> None:
        nonlocal added
        added += 1
        if added > 300:
            raise OSError(28, "No space left on device")
        add(self, *args)

    monkeypatch.setattr(shards.ShardWriter, "add", failing)
    assert merge(root) == 1
    assert all_rows(root) == before
    monkeypatch.undo()
    leftover = root / "tokens" / "shards-0777"  # of a merge that was killed
    leftover.mkdir()
    (leftover / "train-00000.safetensors").write_bytes(b"half")
    assert merge(root) == 0
    assert len(all_rows(root)) == 500
    (directory,) = (root / "tokens").glob("shards-*")
    assert all(name.startswith(directory.name) for name in made(root).outputs)


def test_the_same_attempt_twice_never_touches_named_shards(merge_dir: Any) -> None:
    root = merge_dir([response(1), response(2)])
    assert main("merge", body, [str(root), "--attempt", "1"]) == 0
    (first,) = (root / "tokens").glob("shards-*")
    assert main("merge", body, [str(root), "--attempt", "1"]) == 0
    (second,) = (root / "tokens").glob("shards-*")
    assert first.name != second.name
    assert len(all_rows(root)) == 2


def test_merging_early_is_noted(merge_dir: Any) -> None:
    root = merge_dir([response(1)])
    assert merge(root) == 0
    assert "generate has not finished" in made(root).early


def test_reading_faulty_shards(tmp_path: Path, merge_dir: Any) -> None:
    with pytest.raises(ShardError, match="no merge has finished"):
        shards.find_shards(RunDir.at(tmp_path), "train")
    with pytest.raises(ShardError, match="cannot be read"):
        shards.open_shard(tmp_path / "gone.safetensors")
    path = tmp_path / "x.safetensors"
    save_file({"input_ids": np.zeros(3, np.int32)}, path)
    with pytest.raises(ShardError, match="is no token shard"):
        shards.open_shard(path)
    good = {
        "input_ids": np.zeros(3, np.int32),
        "loss_mask": np.zeros(3, np.uint8),
        "offsets": np.array([0, 2, 3], np.int64),
    }
    save_file(good, path)
    shard = shards.open_shard(path)
    assert [len(row.ids) for row in shard.rows()] == [2, 1]
    with pytest.raises(IndexError):
        shard[2]
    for change in (
        {"offsets": np.array([0, 2, 9], np.int64)},
        {"offsets": np.array([0, 4, 3], np.int64)},
        {"loss_mask": np.zeros(2, np.uint8)},
        {"input_ids": np.zeros(3, np.int64)},
    ):
        save_file({**good, **change}, path)
        with pytest.raises(ShardError, match="do not fit together"):
            shards.open_shard(path)


def test_coverage() -> None:
    found = coverage(np.array([0, 6, 3, 1]))
    assert found == {"size": 4, "distinct": 3, "share_of": {"4": 1.0}}
    many = np.zeros(20_000, np.int64)
    many[:16_000] = 2
    assert coverage(many)["share_of"] == {"8000": 0.5, "16000": 1.0, "20000": 1.0}


def test_index_says_what_each_row_is(merge_dir: Any) -> None:
    root = merge_dir([response(3)], settings="val_fraction = 0")
    assert merge(root) == 0
    (path,) = shards.find_shards(RunDir.at(root), "train")
    line = json.loads(shards.index_path(path).read_text())
    assert line == {"id": "b3", "dataset": "b", "tokens": 8, "supervised": 5}


def test_token_row_is_what_is_written(tmp_path: Path) -> None:
    writer = shards.ShardWriter(tmp_path, "val", 4)
    row = TokenRow(np.array([1, 2, 3], np.int32), np.array([0, 1, 1], np.uint8))
    writer.add("x", "d", row)
    assert writer.paths == []
    writer.add("y", "d", row)
    writer.flush()
    assert [p.name for p in writer.paths] == ["val-00000.safetensors", "val-00000.index.jsonl"]
    assert shards.open_shard(writer.paths[0])[1].mask.tolist() == [0, 1, 1]
