"""Token shards: what phase 3 writes and phases 4 and 5 read.

A shard is a safetensors file of S rows laid end to end, N tokens in all:

- `input_ids` int32 [N]
- `loss_mask` uint8 [N]: 1 where the token was written by the target and is to be predicted. It is
  **not shifted**: `loss_mask[t] == 1` iff token t itself is a target, so that whoever predicts
  token t from position t-1 (or t-1-j) takes the mask at t. The first token of an answer is trained.
- `offsets` int64 [S+1]: row i is [offsets[i], offsets[i+1])

Beside `train-00000.safetensors` lies `train-00000.index.jsonl`: {id, dataset, tokens, supervised} a
row, in the same order. The shards of one merge lie in a directory of their own, named by the
manifest of phase 3; what the manifest does not name is not there yet, or is left over.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from eagle_tui.rundir import atomic, jsonl, manifest
from eagle_tui.rundir.paths import RunDir

Split = Literal["train", "val"]
SCHEMA = "eagle-tui-tokens-1"
_SUFFIX = ".safetensors"


class ShardError(ValueError):
    """A shard is missing, torn or not what it should be; the message names it."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One training sequence of T tokens."""

    ids: npt.NDArray[np.int32]
    """[T]"""
    mask: npt.NDArray[np.uint8]
    """[T], unshifted: 1 where the token is to be predicted."""


@dataclass(frozen=True)
class Shard:
    """A shard in memory (5 bytes a token)."""

    path: Path
    ids: npt.NDArray[np.int32]
    mask: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> TokenRow:
        """A row by its place; views, not copies. IndexError beyond the end."""
        if not 0 <= row < len(self):
            raise IndexError(f"{self.path.name} has {len(self)} rows, asked for {row}")
        start, end = int(self.offsets[row]), int(self.offsets[row + 1])
        return TokenRow(self.ids[start:end], self.mask[start:end])

    def rows(self) -> Iterator[TokenRow]:
        """Every row, in order."""
        return (self[row] for row in range(len(self)))

    def index(self) -> list[dict[str, Any]]:
        """What each row is: {id, dataset, tokens, supervised}."""
        return list(jsonl.rows(index_path(self.path)))


def index_path(shard: Path) -> Path:
    """The index beside a shard."""
    return shard.with_name(shard.name.removesuffix(_SUFFIX) + ".index.jsonl")


def shard_path(directory: Path, split: Split, number: int) -> Path:
    """Where a shard lies."""
    return directory / f"{split}-{number:05d}{_SUFFIX}"


def open_shard(path: Path) -> Shard:
    """Read a shard and check it. ShardError when it cannot be used."""
    try:
        found = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ShardError(f"{path}: cannot be read ({error}). Run the merge phase again.") from error
    try:
        ids, mask, offsets = found["input_ids"], found["loss_mask"], found["offsets"]
    except KeyError as error:
        raise ShardError(f"{path}: holds no {error}; it is no token shard.") from None
    sound = (
        ids.dtype == np.int32
        and mask.dtype == np.uint8
        and offsets.dtype == np.int64
        and ids.ndim == mask.ndim == offsets.ndim == 1
        and len(ids) == len(mask)
        and len(offsets) >= 1
        and offsets[0] == 0
        and offsets[-1] == len(ids)
        and bool(np.all(np.diff(offsets) >= 0))
    )
    if not sound:
        raise ShardError(f"{path}: its tensors do not fit together. Run the merge phase again.")
    return Shard(path, ids, mask, offsets)


def find_shards(run: RunDir, split: Split) -> list[Path]:
    """The shards of the last finished merge, in order. Empty when there are none of that split;
    ShardError when no merge has finished."""
    made = manifest.read(run, "merge")
    if made is None:
        raise ShardError(f"{run.phase('merge')}: no merge has finished. Run the merge phase first.")
    names = sorted(name for name in made.outputs if name.endswith(_SUFFIX))
    return [run.phase("merge") / name for name in names if Path(name).name.startswith(f"{split}-")]


def iterate(run: RunDir, split: Split) -> Iterator[TokenRow]:
    """Every row of a split, in shuffled order; one shard in memory at a time."""
    for path in find_shards(run, split):
        yield from open_shard(path).rows()


class ShardWriter:
    """Collects rows and writes a shard whenever enough tokens are there."""

    def __init__(self, directory: Path, split: Split, shard_tokens: int) -> None:
        self._directory = directory
        self._split: Split = split
        self._limit = shard_tokens
        self._rows: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]] = []
        self._index: list[bytes] = []
        self._tokens = 0
        self.paths: list[Path] = []
        """The files written so far, indices included."""

    def add(self, row_id: str, dataset: str, row: TokenRow) -> None:
        """Take a row; writes a shard when it is full."""
        self._rows.append((row.ids, row.mask))
        self._tokens += len(row.ids)
        entry = {
            "id": row_id,
            "dataset": dataset,
            "tokens": len(row.ids),
            "supervised": int(row.mask.sum()),
        }
        self._index.append(jsonl.encode(entry))
        if self._tokens >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Write what is collected, if anything; whole on disk when this returns."""
        if not self._rows:
            return
        path = shard_path(self._directory, self._split, len(self.paths) // 2)
        lengths = [len(ids) for ids, _ in self._rows]
        tensors = {
            "input_ids": np.concatenate([ids for ids, _ in self._rows]),
            "loss_mask": np.concatenate([mask for _, mask in self._rows]),
            "offsets": np.cumsum([0, *lengths], dtype=np.int64),
        }
        atomic.write_bytes(path, save(tensors, metadata={"schema": SCHEMA, "mask": "unshifted"}))
        atomic.write_bytes(index_path(path), b"".join(self._index))
        self.paths += [path, index_path(path)]
        self._rows, self._index, self._tokens = [], [], 0


def new_directory(run: RunDir, attempt: int) -> Path:
    """An empty directory for the shards of one merge, which no manifest names."""
    remove_unnamed(run)
    number = attempt
    while (path := run.phase("merge") / f"shards-{number:04d}").exists():
        number += 1
    path.mkdir(parents=True)
    return path


def remove_unnamed(run: RunDir) -> None:
    """Remove the shards that the manifest does not name: those of earlier merges and of merges that
    broke off. Safe at any time."""
    made = manifest.read(run, "merge")
    named = {Path(name).parts[0] for name in made.outputs} if made else set()
    for directory in run.phase("merge").glob("shards-*"):
        if directory.name not in named:
            shutil.rmtree(directory)
