"""The disk that hidden states take, and what can be done where it is too small."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .plan import RowRef

BYTES_OF = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
_INDEX_BYTES = 160
"""Of an index line, with its share of the shard's header."""
GB = 10**9
"""Bytes in the unit of `extract.rolling_window_gb`."""


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


@dataclass(frozen=True)
class Room:
    """The disk, in bytes."""

    free: int
    keep_free: int

    @property
    def usable(self) -> int:
        """What may be taken."""
        return self.free - self.keep_free

    def sentence(self) -> str:
        """For the operator."""
        return (
            f"{gigabytes(self.free)} are free, of which extract.keep_free_bytes keeps "
            f"{gigabytes(self.keep_free)}"
        )


def why_too_big(
    rows: Sequence[RowRef],
    *,
    hidden_size: int,
    dtype: str,
    room: Room,
    stored_rows: int,
    live: bool,
) -> str:
    """Why the rows do not fit on the disk, and what would; empty when they do.

    `rows` are those still to be stored, `stored_rows` the training rows stored before; `live`:
    training could extract by itself.
    """
    need = bytes_needed(rows, hidden_size, dtype)
    if need <= room.usable:
        return ""
    tokens = sum(row.tokens for row in rows)
    text = (
        f"The states of {tokens:,} tokens in {len(rows):,} rows need {gigabytes(need)} as {dtype}; "
        f"{room.sentence()}."
    )
    options: list[str] = []
    if dtype != "float8":
        small = bytes_needed(rows, hidden_size, "float8")
        fits = "fits" if small <= room.usable else "does not fit either"
        options.append(f'extract.dtype = "float8" needs {gigabytes(small)} ({fits})')
    if dtype == "float32":
        half = bytes_needed(rows, hidden_size, "bfloat16")
        fits = "fits" if half <= room.usable else "does not fit either"
        options.append(f'extract.dtype = "bfloat16" needs {gigabytes(half)} ({fits})')
    fitting = rows_that_fit(rows, hidden_size, dtype, room.usable)
    if fitting + stored_rows > 0:
        options.append(f"extract.samples = {fitting + stored_rows} fits")
    if live:
        held_out = bytes_needed((r for r in rows if r.split == "val"), hidden_size, dtype)
        options += _without_storing(held_out, room)
    options.append("or make room")
    return f"{text} What can be done: {'; '.join(options)}."


def why_no_window(held_out: int, window: int, room: Room) -> str:
    """Why a window of so many bytes and the held-out rows do not fit on the disk, and what would;
    empty when they do."""
    if held_out + window <= room.usable:
        return ""
    options = [*_without_storing(held_out, room), "or make room"]
    return (
        f"A window of {gigabytes(window)} (extract.rolling_window_gb) and {gigabytes(held_out)} of "
        f"held-out rows do not fit on the disk; {room.sentence()}. What can be done: "
        f"{'; '.join(options)}."
    )


def _without_storing(held_out: int, room: Room) -> list[str]:
    """The modes in which training extracts by itself, with what they take."""
    options: list[str] = []
    window = largest_window(room.usable - held_out)
    if window > 0:
        options.append(
            f'extract.mode = "rolling" with extract.rolling_window_gb = {window:g} fits (at most '
            f"{gigabytes(held_out + round(window * GB))} at a time, held-out rows included; each "
            "epoch extracts again)"
        )
    return [*options, 'extract.mode = "online" stores nothing (each epoch runs the target again)']


def largest_window(room: int) -> float:
    """The largest window in GB, of three digits, that fits into so many bytes; 0 when none does."""
    if room <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(room / GB)) - 2)
    return math.floor(room / GB / step) * step


def gigabytes(count: float) -> str:
    """Bytes for a sentence, in units of 1000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.2f} TB"
