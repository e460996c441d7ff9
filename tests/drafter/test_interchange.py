"""Hidden-state files of other trainers, made here as their writers make them."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from eagle_tui.pipeline.drafter import interchange
from eagle_tui.pipeline.drafter.interchange import InterchangeError, read_specforge
from eagle_tui.pipeline.drafter.target_weights import TargetWeights
from eagle_tui.pipeline.hidden import HiddenShard, open_hidden
from eagle_tui.pipeline.shards import ShardWriter, TokenRow
from eagle_tui.rundir import atomic

WIDTH = 16
RANDOM = torch.Generator().manual_seed(0)


@pytest.fixture
def target(tmp_path: Path) -> TargetWeights:
    path = tmp_path / "target"
    path.mkdir()
    config = {
        **{"hidden_size": WIDTH, "num_hidden_layers": 30, "vocab_size": 20},
        **{"rms_norm_eps": 1e-5, "model_type": "llama"},
    }
    atomic.write_json(path / "config.json", config)
    tensors = {
        "model.embed_tokens.weight": torch.randn(20, WIDTH),
        "model.norm.weight": torch.rand(WIDTH) + 0.5,
    }
    save_file(tensors, path / "model.safetensors")
    return TargetWeights.open(path)


def specforge_row(length: int) -> dict[str, Any]:
    return {
        "input_ids": torch.randint(20, (length,), generator=RANDOM),
        "loss_mask": (torch.arange(length) >= 2).long(),
        "aux_hidden_state": torch.randn(1, length, 3 * WIDTH, generator=RANDOM).bfloat16(),
        "hidden_state": torch.randn(1, length, WIDTH, generator=RANDOM).bfloat16(),
    }


def write_specforge(root: Path, lengths: list[int]) -> list[dict[str, Any]]:
    rows = [specforge_row(n) for n in lengths]
    folder = root / "rows_0-2000"
    folder.mkdir(parents=True)
    for number, row in enumerate(rows):
        if number % 2:
            data = io.BytesIO()
            torch.save(row, data)
            (folder / f"data_{number}.ckpt.gz").write_bytes(gzip.compress(data.getvalue()))
        else:
            torch.save(row, folder / f"data_{number}.ckpt")
    return rows


def opened(directory: Path) -> list[HiddenShard]:
    return [open_hidden(path) for path in sorted(directory.glob("*.safetensors"))]


def test_specforge_files_become_shards(tmp_path: Path, target: TargetWeights) -> None:
    rows = write_specforge(tmp_path / "sf", [5, 9, 3, 7, 4, 6, 8, 5, 5, 5, 12])
    argv = ["read", str(tmp_path / "sf"), str(tmp_path / "ours"), "--format", "specforge"]
    assert interchange.main([*argv, "--target", str(target.path)]) == 0
    (shard,) = opened(tmp_path / "ours")
    assert shard.layers == (2, 15, 27) and shard.metadata["norm"] == "post"
    assert [entry["id"] for entry in shard.index()] == [f"data_{n}" for n in range(11)]
    for found, row in zip(shard.rows(), rows, strict=True):
        assert torch.equal(found.ids.long(), row["input_ids"])
        assert torch.equal(found.mask.long(), row["loss_mask"])
        assert torch.equal(found.aux, row["aux_hidden_state"][0])
        assert torch.equal(found.last, row["hidden_state"][0])
    shard.verify()


def test_what_we_write_specforge_reads_the_same(tmp_path: Path, target: TargetWeights) -> None:
    rows = write_specforge(tmp_path / "sf", [5, 9])
    interchange.write_shards(
        read_specforge(tmp_path / "sf"), tmp_path / "ours",
        layers=(2, 15, 27), target="t", dataset="d", shard_tokens=5,
    )  # fmt: skip
    assert len(opened(tmp_path / "ours")) == 2
    argv = ["write", str(tmp_path / "ours"), str(tmp_path / "again"), "--format", "specforge"]
    assert interchange.main(argv) == 0
    for number, row in enumerate(rows):
        found = torch.load(
            tmp_path / "again" / "rows_0-2000" / f"data_{number}.ckpt", weights_only=True
        )
        assert found.keys() == row.keys()
        for key, tensor in row.items():
            assert torch.equal(found[key], tensor) and found[key].dtype == tensor.dtype


def write_speculators(root: Path, lengths: list[int]) -> list[dict[str, torch.Tensor]]:
    root.mkdir()
    rows = [
        {
            "token_ids": torch.randint(20, (n,), generator=RANDOM),
            "hidden_states": torch.randn(n, 4, WIDTH, generator=RANDOM).bfloat16(),
        }
        for n in lengths
    ]
    for number, row in enumerate(rows):
        save_file(row, root / f"hs_{number}.safetensors")
    return rows


def write_tokens(root: Path, rows: list[dict[str, torch.Tensor]]) -> None:
    root.mkdir()
    writer = ShardWriter(root, "train", 1000)
    for number, row in enumerate(reversed(rows)):
        ids = row["token_ids"].numpy().astype(np.int32)
        writer.add(str(number), "d", TokenRow(ids, (np.arange(len(ids)) >= 3).astype(np.uint8)))
    writer.flush()


def test_speculators_files_get_the_final_norm_and_our_masks(
    tmp_path: Path, target: TargetWeights
) -> None:
    rows = write_speculators(tmp_path / "sp", [6, 11])
    write_tokens(tmp_path / "tokens", rows)
    argv = ["read", str(tmp_path / "sp"), str(tmp_path / "ours"), "--format", "speculators"]
    argv += ["--target", str(target.path), "--tokens", str(tmp_path / "tokens")]
    assert interchange.main([*argv, "--layers", "3,9,20"]) == 0
    (shard,) = opened(tmp_path / "ours")
    assert shard.layers == (3, 9, 20)
    for found, row in zip(shard.rows(), rows, strict=True):
        states = row["hidden_states"].float()
        last = states[:, 3] * torch.rsqrt(states[:, 3].square().mean(-1, keepdim=True) + 1e-5)
        expected = (last * target.final_norm()).bfloat16()
        assert torch.equal(found.aux, row["hidden_states"][:, :3].reshape(-1, 3 * WIDTH))
        torch.testing.assert_close(found.last, expected, rtol=1e-2, atol=1e-2)
        assert found.mask.tolist() == [0, 0, 0] + [1] * (len(found.ids) - 3)


def test_files_that_do_not_fit_are_named(
    tmp_path: Path, target: TargetWeights, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*more: str) -> str:
        argv = ["read", str(tmp_path / "x"), str(tmp_path / "ours"), "--target", str(target.path)]
        assert interchange.main([*argv, *more]) == 1
        return capsys.readouterr().err

    folder = tmp_path / "x"
    folder.mkdir()
    assert "holds no data_*.ckpt" in fails("--format", "specforge")
    row = specforge_row(5)
    torch.save({**row, "loss_mask": torch.ones(4)}, folder / "data_0.ckpt")
    assert "do not fit together" in fails("--format", "specforge")
    row["hidden_state"][0, 2, 1] = float("inf")
    torch.save(row, folder / "data_0.ckpt")
    assert "not finite" in fails("--format", "specforge")
    torch.save({"a": 1}, folder / "data_0.ckpt")
    assert "has no 'input_ids'" in fails("--format", "specforge")
    (tmp_path / "none").mkdir()
    save_file(
        {"token_ids": torch.ones(2).long(), "hidden_states": torch.ones(2, 4, WIDTH)},
        folder / "hs_0.safetensors",
    )
    argv = ("--format", "speculators", "--tokens", str(tmp_path / "none"))
    assert "there is no loss mask" in fails(*argv)
    assert "ascending indices from 1 to 29" in fails(*argv, "--layers", "5,5,9")


class Evil:
    """Would run code when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("touched-by-a-pickle"),))


def test_nothing_in_a_file_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"input_ids": Evil()}, tmp_path / "data_0.ckpt")
    with pytest.raises(InterchangeError, match="cannot be read"):
        next(read_specforge(tmp_path))
    assert not (tmp_path / "touched-by-a-pickle").exists()
