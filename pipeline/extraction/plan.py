"""What an extraction has to do: layers, rows that are left, their batches, the disk they take.

Pure, but for what reads indices and asks how much disk is free.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_tui.rundir import jsonl
from eagle_tui.rundir.paths import RunDir

from .. import shards
from ..hidden import SUFFIX
from ..shards import Split

BYTES_OF = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
_INDEX_BYTES = 160
"""Of an index line, with its share of the shard's header."""
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
    supervised: int


def choose_layers(wanted: Sequence[int] | None, count: int) -> tuple[tuple[int, int, int], str]:
    """Three indices of hidden states of a model with `count` layers, and what to tell about it.

    Index i is the input of layer i, so the highest is `count`-1: what leaves the last layer cannot
    be captured by SGLang. By default 2, N/2 and N-3, as EAGLE and SGLang choose; for a model in
    which these are not three, 1..N-1 are spread. NoLayers when that is impossible.
    """
    highest = count - 1
    if wanted is not None:
        low, mid, high = wanted
        if high > highest:
            raise NoLayers(
                f"extract.layers = {list(wanted)}: the target has {count} layers, so the highest "
                f"index is {highest}, the input of its last layer. Choose three of 1 to {highest}."
            )
        note = (
            "extract.layers names 0, the embeddings: SGLang 0.5.17 cannot capture them"
            if low == 0
            else ""
        )
        return (low, mid, high), note
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


def bytes_per_token(hidden_size: int, dtype: str) -> int:
    """Disk that a token takes: four states, their scales if float8, its id and mask."""
    scales = 4 * 4 if dtype == "float8" else 0
    return 4 * hidden_size * BYTES_OF[dtype] + scales + 5


def bytes_needed(rows: Iterable[RowRef], hidden_size: int, dtype: str) -> int:
    """Disk that the states of these rows take."""
    each = bytes_per_token(hidden_size, dtype)
    return sum(row.tokens * each + _INDEX_BYTES for row in rows)


def rows_that_fit(rows: Sequence[RowRef], hidden_size: int, dtype: str, room: int) -> int:
    """How many training rows fit into `room` bytes, in order, after all rows for validation."""
    each = bytes_per_token(hidden_size, dtype)
    room -= bytes_needed((r for r in rows if r.split == "val"), hidden_size, dtype)
    count = 0
    for row in rows:
        if row.split == "val":
            continue
        room -= row.tokens * each + _INDEX_BYTES
        if room < 0:
            break
        count += 1
    return count


def free_bytes(directory: Path) -> int:
    """Room on the disk of a directory that exists, or of its nearest parent that does."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free


def why_too_big(
    rows: Sequence[RowRef],
    *,
    hidden_size: int,
    dtype: str,
    free: int,
    keep_free: int,
    stored_rows: int,
) -> str:
    """Why the rows do not fit on the disk, and what would; empty when they do.

    `rows` are those still to be stored, `stored_rows` the training rows stored before.
    """
    need, room = bytes_needed(rows, hidden_size, dtype), free - keep_free
    if need <= room:
        return ""
    tokens = sum(row.tokens for row in rows)
    text = (
        f"The states of {tokens:,} tokens in {len(rows):,} rows need {gigabytes(need)} as {dtype}; "
        f"{gigabytes(free)} are free, of which extract.keep_free_bytes keeps "
        f"{gigabytes(keep_free)}."
    )
    options: list[str] = []
    if dtype != "float8":
        small = bytes_needed(rows, hidden_size, "float8")
        fits = "fits" if small <= room else "does not fit either"
        options.append(f'extract.dtype = "float8" needs {gigabytes(small)} ({fits})')
    if dtype == "float32":
        half = bytes_needed(rows, hidden_size, "bfloat16")
        fits = "fits" if half <= room else "does not fit either"
        options.append(f'extract.dtype = "bfloat16" needs {gigabytes(half)} ({fits})')
    fitting = rows_that_fit(rows, hidden_size, dtype, room)
    if fitting + stored_rows > 0:
        options.append(f"extract.samples = {fitting + stored_rows} fits")
    options.append("or make room")
    return f"{text} What can be done: {'; '.join(options)}."


def gigabytes(count: float) -> str:
    """Bytes for a sentence, in units of 1000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.2f} TB"


def read_rows(run: RunDir, samples: int | None) -> list[RowRef]:
    """Every row that is to be extracted, in the order of the token shards: the first `samples`
    training rows, and all for validation. ShardError when no merge has finished."""
    found: list[RowRef] = []
    limits: tuple[tuple[Split, int | None], ...] = (("train", samples), ("val", None))
    for split, limit in limits:
        count = 0
        for number, path in enumerate(shards.find_shards(run, split)):
            for place, entry in enumerate(jsonl.rows(shards.index_path(path))):
                if limit is not None and count >= limit:
                    break
                count += 1
                found.append(
                    RowRef(
                        str(entry["id"]),
                        str(entry["dataset"]),
                        split,
                        number,
                        place,
                        int(entry["tokens"]),
                        int(entry["supervised"]),
                    )
                )
    return found


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
    batches: list[list[RowRef]] = []
    batch: list[RowRef] = []
    # Longest first: what does not fit into the device's memory is met at the beginning.
    for row in sorted(window, key=lambda r: -r.tokens):
        width = batch[0].tokens if batch else row.tokens
        if batch and width * (len(batch) + 1) > batch_tokens:
            batches.append(batch)
            batch = []
        batch.append(row)
    if batch:
        batches.append(batch)
    return batches
