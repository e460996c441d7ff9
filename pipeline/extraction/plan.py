"""What an extraction has to do: layers, rows that are left, their batches.

Pure, but for what reads indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eagle_tui.rundir import jsonl
from eagle_tui.rundir.paths import RunDir

from .. import shards
from ..drafter.layer_ids import misread
from ..hidden import SUFFIX
from ..shards import Split

T = TypeVar("T")

_WINDOW_BATCHES = 16
"""Rows are sorted by length within windows of so many batches, so that a shard holds all lengths
and a batch hardly any padding."""


class NoLayers(ValueError):
    """The model has no three layers to capture; the message says why."""


@dataclass(frozen=True, slots=True)
class RowRef:
    """A row of the token shards: where it lies and how long it is."""

    id: str
    dataset: str
    split: Split
    shard: int
    """Place of its shard in `find_shards` of the split."""
    place: int
    """Place of the row in the shard."""
    tokens: int
    """That are extracted: fewer than the row has when it is cut."""
    supervised: int


def choose_layers(
    wanted: Sequence[int] | None, count: int, model_type: str = ""
) -> tuple[tuple[int, int, int], str]:
    """Three indices of hidden states of a model with `count` layers, and what to tell about it.

    Index i is the input of layer i, so the highest is `count`-1: what leaves the last layer cannot
    be captured by SGLang. By default 2, N/2 and N-3, as EAGLE and SGLang choose; for a model in
    which these are not three, 1..N-1 are spread. NoLayers when that is impossible, or when SGLang
    would read the ids of a target of this `model_type` as those of other layers.
    """
    layers, note = _three_layers(wanted, count)
    if wrong := misread(model_type, [layer - 1 for layer in layers]):
        raise NoLayers(
            f"extract.layers = {list(layers)}: a drafter's config.json names layers by their "
            f"outputs, one less, and {wrong}: it would be fed other states than it was trained on. "
            "Let extract.layers begin with 2."
        )
    return layers, note


def _three_layers(wanted: Sequence[int] | None, count: int) -> tuple[tuple[int, int, int], str]:
    highest = count - 1
    if wanted is not None:
        low, mid, high = wanted
        if low < 1 or high > highest:
            raise NoLayers(
                f"extract.layers = {list(wanted)}: the target has {count} layers, so the highest "
                f"index is {highest}, the input of its last layer. Choose three of 1 to {highest}."
            )
        return (low, mid, high), ""
    usual = (2, count // 2, count - 3)
    if usual[0] < usual[1] < usual[2]:
        return usual, ""
    if highest < 3:
        raise NoLayers(
            f"The target has {count} layers. An EAGLE-3 drafter takes the inputs of three "
            "different layers, the first one's left out; that needs four layers."
        )
    spread = (1, count // 2, highest)
    return spread, (
        f"layers 2, N/2 and N-3, the usual ones, are not three for a target of {count} layers; "
        f"{', '.join(map(str, spread))} are taken instead"
    )


def to_store(rows: Sequence[RowRef], mode: str) -> list[RowRef]:
    """Those of the rows whose states this phase stores: all, or where training extracts by itself
    the held-out ones or none."""
    if mode == "stored":
        return list(rows)
    return [row for row in rows if row.split == "val"] if mode == "rolling" else []


def read_rows(run: RunDir, samples: int | None, longest: int | None = None) -> list[RowRef]:
    """Every row that is to be extracted, in the order of the token shards: the first `samples`
    training rows, and all for validation. Rows of more than `longest` tokens are cut; one with
    nothing to predict before the cut is left out. ShardError when no merge has finished."""
    found: list[RowRef] = []
    limits: tuple[tuple[Split, int | None], ...] = (("train", samples), ("val", None))
    for split, limit in limits:
        count = 0
        for number, path in enumerate(shards.find_shards(run, split)):
            cut = _Cut(path, longest)
            for place, entry in enumerate(jsonl.rows(shards.index_path(path))):
                if limit is not None and count >= limit:
                    break
                count += 1
                tokens, supervised = cut(place, int(entry["tokens"]), int(entry["supervised"]))
                if tokens:
                    row, dataset = str(entry["id"]), str(entry["dataset"])
                    found.append(RowRef(row, dataset, split, number, place, tokens, supervised))
    return found


class _Cut:
    """Length of a shard's rows when they are cut; the shard is opened only if one is longer."""

    def __init__(self, path: Path, longest: int | None) -> None:
        self._path, self._longest = path, longest
        self._shard: shards.Shard | None = None

    def __call__(self, place: int, tokens: int, supervised: int) -> tuple[int, int]:
        """Tokens and supervised ones; none of either when the cut leaves nothing to predict."""
        if self._longest is None or tokens <= self._longest:
            return tokens, supervised
        self._shard = self._shard or shards.open_shard(self._path)
        left = int(self._shard[place].mask[: self._longest].sum())
        return (self._longest, left) if left else (0, 0)


def shard_number(path: Path) -> int:
    """`train-00012.safetensors` → 12."""
    return int(path.name.removesuffix(SUFFIX).rpartition("-")[2])


def finished_shards(directory: Path) -> list[Path]:
    """Shards in a directory that are whole. The index is written first, so where there is a shard
    there is an index; an index alone is left over from a worker that was killed."""
    return sorted(p for p in directory.glob(f"*-*{SUFFIX}") if shards.index_path(p).exists())


def ids_done(paths: Iterable[Path], quarantines: Iterable[Path] = ()) -> set[str]:
    """Ids of the rows in these shards, and of those in these quarantine files."""
    found = {str(row["id"]) for path in paths for row in jsonl.rows(shards.index_path(path))}
    for path in quarantines:
        found.update(str(row["id"]) for row in jsonl.rows(path))
    return found


def make_batches(rows: Sequence[RowRef], batch_tokens: int) -> list[list[RowRef]]:
    """Batches of rows of like length and of one split, padding included at most `batch_tokens`; a
    row longer than that is alone. The order follows that of the rows, window by window."""
    found: list[list[RowRef]] = []
    for split in ("train", "val"):
        window: list[RowRef] = []
        tokens = 0
        for row in (r for r in rows if r.split == split):
            window.append(row)
            tokens += row.tokens
            if tokens >= _WINDOW_BATCHES * batch_tokens:
                found += _cut(window, batch_tokens)
                window, tokens = [], 0
        found += _cut(window, batch_tokens)
    return found


def _cut(window: list[RowRef], batch_tokens: int) -> list[list[RowRef]]:
    # Longest first: what does not fit into the device's memory is met at the beginning.
    rows = sorted(window, key=lambda row: -row.tokens)
    return cut_by_length(rows, lambda row: row.tokens, batch_tokens)


def cut_by_length(
    rows: Sequence[T], length: Callable[[T], int], batch_tokens: int
) -> list[list[T]]:
    """Batches of rows that come longest first, padding included at most `batch_tokens` each; a row
    longer than that is alone."""
    batches: list[list[T]] = []
    batch: list[T] = []
    for row in rows:
        width = length(batch[0]) if batch else length(row)
        if batch and width * (len(batch) + 1) > batch_tokens:
            batches.append(batch)
            batch = []
        batch.append(row)
    if batch:
        batches.append(batch)
    return batches
