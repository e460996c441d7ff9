"""Writing one hidden-state shard: streamed from the pieces it is made of, whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eagle_tui.rundir import atomic, jsonl

from ..hidden import SCHEMA, as_bytes, checksum
from ..shards import index_path

_NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.uint8: "U8",
}
_ALIGN = 8


def write_shard(
    path: Path,
    pieces: Mapping[str, Sequence[Tensor]],
    metadata: dict[str, str],
    index: Iterable[dict[str, Any]],
) -> int:
    """Write a shard and its index; gives the bytes. Both are on disk when this returns.

    `pieces`: tensor name → contiguous CPU tensors that make it up along the first axis. They are
    written as they are, so a shard is never in memory a second time. The index goes first: a shard
    that is there is complete. OSError, with nothing left behind, when the disk is full.
    """
    header = _header(pieces, metadata)
    atomic.write_bytes(index_path(path), b"".join(jsonl.encode(row) for row in index))
    size = 8 + len(header)
    fd, temp = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(len(header).to_bytes(8, "little"))
            file.write(header)
            for parts in pieces.values():
                for part in parts:
                    size += file.write(memoryview(as_bytes(part)))
            file.flush()
            os.fsync(file.fileno())
        Path(temp).chmod(0o644)
        Path(temp).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temp).unlink()
        raise
    atomic.fsync_dir(path.parent)
    return size


def _header(pieces: Mapping[str, Sequence[Tensor]], metadata: dict[str, str]) -> bytes:
    """The JSON header of a safetensors file, padded with spaces so that the data is aligned."""
    sums: dict[str, int] = {}
    entries: dict[str, Any] = {}
    start = 0
    for name, parts in pieces.items():
        crc, count = 0, 0
        for part in parts:
            crc = checksum(part, crc)
            count += part.shape[0]
        size = sum(part.numel() * part.element_size() for part in parts)
        entries[name] = {
            "dtype": _NAMES[parts[0].dtype],
            "shape": [count, *parts[0].shape[1:]],
            "data_offsets": [start, start + size],
        }
        sums[name] = crc
        start += size
    told = {**metadata, "schema": SCHEMA, "crc32": json.dumps(sums)}
    text = json.dumps({"__metadata__": told, **entries}).encode()
    return text + b" " * (-len(text) % _ALIGN)
