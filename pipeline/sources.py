"""Raw rows of a dataset: local JSONL, JSON, Parquet and SWE-agent files, or Hugging Face."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from eagle_tui.config.model import DatasetSection
from eagle_tui.rundir.manifest import source_path
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import scrub

from . import json_stream
from .worker import Failed, Refused

EXCERPT = 300
"""Characters of a rejected row that are kept to look at."""
_PARQUET_ROWS = 256
_WHOLE_FILE = 512 << 20
"""Bytes of a JSON file that is one object and so has to be read as a whole."""
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_UNREAD = {
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\xfd7zXZ": "compressed with xz",
    b"BZh": "compressed with bzip2",
    b"PK\x03\x04": "a ZIP archive",
    b"\xff\xfe": "in UTF-16",
    b"\xfe\xff": "in UTF-16",
}
"""What files begin with that we do not read, and what these are."""
_READ_ERRORS = (OSError, EOFError, zlib.error)
"""What reading a file raises: disks and permissions, and gzip that is cut off or damaged."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as it stands in the source."""

    number: int
    """From 1, in the order of the source."""
    value: Any
    """What was parsed; None when `problem` says why it could not be."""
    problem: str = ""
    offset: int | None = None
    """Byte at which the row begins, for files of JSON."""
    raw: bytes | None = None

    def excerpt(self) -> str:
        """The beginning of the row, for the operator to recognise it."""
        if self.raw is not None:
            return self.raw[: EXCERPT * 4].decode("utf-8", "replace")[:EXCERPT]
        return scrub(json.dumps(self.value, ensure_ascii=False, default=str)[:EXCERPT])


@dataclass(frozen=True)
class Source:
    """A dataset that can be read."""

    where: str
    """Path or id, for messages."""
    total: int | None
    """Number of rows, where it is known without reading them."""
    rows: Callable[[], Iterator[RawRow]]
    """Reads from the beginning. Failed when the source breaks off."""


def open_source(run: RunDir, dataset: DatasetSection) -> Source:
    """The source of a dataset, looked at but not read. Refused when there is none."""
    path = source_path(run, dataset)
    if path is None:
        return _hugging_face(dataset, dataset.source)
    if not os.path.exists(path):  # noqa: PTH110 - unlike Path.exists it raises nothing
        raise Refused(
            f"dataset {dataset.name}: there is no file {path}. Correct `source` in run.toml "
            "(paths are relative to it)."
        )
    if path.is_dir():
        found = sorted(path.rglob("*.traj"))
        return _trajectories(path, found) if found else _hugging_face(dataset, str(path))
    if path.stat().st_size == 0:
        raise Refused(f"dataset {dataset.name}: {path} is empty.")
    try:
        magic = _magic(path)
        if magic.startswith(_PARQUET) or path.suffix == ".parquet":
            return _parquet(dataset, path)
        with _open(path) as file:
            head = file.read(json_stream.CHUNK)
        return _json(dataset, path, head, packed=magic.startswith(_GZIP))
    except _READ_ERRORS as error:
        raise Refused(f"dataset {dataset.name}: {path} cannot be read: {error}") from error


def _json(dataset: DatasetSection, path: Path, head: bytes, *, packed: bool) -> Source:
    """What a file holds is seen from its beginning, not from its name."""
    for magic, what in _UNREAD.items():
        if head.startswith(magic):
            raise Refused(
                f"dataset {dataset.name}: {path} is {what}. Convert it to JSONL in UTF-8 (it may "
                "be compressed with gzip)."
            )
    body = head.removeprefix(json_stream.BOM).lstrip(b" \t\r\n")
    if body.startswith(b"[") and not _is_row_list(body):
        return Source(str(path), None, lambda: _parsed(path, json_stream.read_array))
    total = None if packed else _count_lines(path)
    if body.startswith(b"{") and (total == 1 or not _is_lines(body)):
        return Source(str(path), None, lambda: _single_object(path))
    return Source(str(path), total, lambda: _parsed(path, json_stream.read_lines))


def _is_row_list(body: bytes) -> bool:
    """Is every line a JSON array of its own (a row that is a list of turns)?"""
    lines = _first_lines(body, 2)
    first = _parse(lines[0])
    if not isinstance(first, list):
        return False
    if len(lines) == 1:
        return bool(first) and all(
            isinstance(t, dict) and ("role" in t or "from" in t) for t in first
        )
    return lines[1].startswith(b"[")


def _is_lines(body: bytes) -> bool:
    """Is each line an object (or too long to say)? Those of a pretty-printed one are not. A first
    line that is broken is no reason to doubt it when the next two are whole."""
    lines = _first_lines(body, 3)
    if len(lines) == 1 or _parse(lines[0]) is not None:
        return True
    if all(isinstance(_parse(line), dict) for line in lines[1:]) and len(lines) == 3:
        return True
    return len(lines[0]) > 1 and not lines[0].endswith((b"{", b"[", b","))


def _first_lines(body: bytes, count: int) -> list[bytes]:
    """The first lines that are not blank; at least one."""
    found: list[bytes] = []
    for _, line in json_stream.read_lines(io.BytesIO(body)):
        if line.strip():
            found.append(line.strip())
        if len(found) == count:
            break
    return found


def _parse(line: bytes) -> Any:
    """What the line holds; None when it is no JSON."""
    try:
        return json_stream.parse(line)
    except ValueError:
        return None


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)


def _open(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where it is packed, whatever it is called."""
    packed = _magic(path).startswith(_GZIP)
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def _count_lines(path: Path) -> int:
    count, last = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(json_stream.CHUNK):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


def _parsed(
    path: Path, read: Callable[[IO[bytes]], Iterator[tuple[int, bytes]]]
) -> Iterator[RawRow]:
    number = 0
    try:
        with _open(path) as file:
            for offset, data in read(file):
                if not data.strip():
                    continue
                number += 1
                try:
                    value, problem = json_stream.parse(data), ""
                except ValueError as error:
                    value, problem = None, str(error)
                yield RawRow(number, value, problem, offset, data)
    except (*_READ_ERRORS, json_stream.BrokenFileError) as error:
        raise Failed(f"{path}: cannot be read after row {number}: {error}") from error


def _single_object(path: Path) -> Iterator[RawRow]:
    """A file that is one object: a row (a SWE-agent trajectory), or rows under one of its keys."""
    try:
        with _open(path) as file:
            data = file.read(_WHOLE_FILE + 1)
    except _READ_ERRORS as error:
        raise Failed(f"{path}: cannot be read: {error}") from error
    if len(data) > _WHOLE_FILE:
        raise Failed(
            f"{path} is one JSON object of more than {_WHOLE_FILE >> 20} MB. Write its rows as "
            "JSONL, one object a line."
        )
    try:
        body = json_stream.parse(data.removeprefix(json_stream.BOM))
    except ValueError as error:
        raise Failed(
            f"{path}: not valid JSON ({error}). Rows of JSONL are one object a line, without "
            "commas between them."
        ) from error
    if not isinstance(body, dict):
        yield RawRow(1, body)
        return
    lists = [
        value
        for key in ("data", "rows", "train", "examples")
        if isinstance(value := body.get(key), list) and value and isinstance(value[0], dict)
    ]
    if not lists:
        yield RawRow(1, body)
        return
    for number, value in enumerate(lists[0], 1):
        yield RawRow(number, value)


def _trajectories(path: Path, files: list[Path]) -> Source:
    def read() -> Iterator[RawRow]:
        for number, file in enumerate(files, 1):
            try:
                rows = list(_single_object(file))
            except Failed as error:  # an agent that was killed leaves half a file
                yield RawRow(number, None, str(error))
                continue
            for row in rows:
                yield RawRow(number, row.value)

    return Source(str(path), len(files), read)


def _parquet(dataset: DatasetSection, path: Path) -> Source:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        with pq.ParquetFile(path) as file:
            total = file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"dataset {dataset.name}: {path} is no Parquet file ({error}).") from error

    def read() -> Iterator[RawRow]:
        number = 0
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                    for value in batch.to_pylist():
                        number += 1
                        yield RawRow(number, value)
        except (OSError, pa.ArrowException) as error:
            raise Failed(f"{path}: cannot be read after row {number}: {error}") from error

    return Source(str(path), total, read)


def _hugging_face(dataset: DatasetSection, place: str) -> Source:
    """A dataset of the hub, or a local directory laid out like one, streamed."""
    from datasets import load_dataset  # type: ignore[import-untyped]

    hint = (
        "Check the id, `subset` and `split`; a private or gated dataset needs `hf auth "
        "login`. Without network, download it and give the files as `source`."
    )
    try:
        found = load_dataset(place, dataset.subset, split=dataset.split, streaming=True)
    # The library lets errors of its builders, of fsspec and of HTTP through as they are.
    except Exception as error:
        raise Failed(
            f"dataset {dataset.name}: {place!r} cannot be opened: {type(error).__name__}: {error}. "
            + hint
        ) from error
    splits = found.info.splits or {}
    info = splits.get(dataset.split)
    total = info.num_examples if info is not None and info.num_examples else None

    def read() -> Iterator[RawRow]:
        number = 0
        try:
            for value in found:
                number += 1
                yield RawRow(number, dict(value))
        except Exception as error:
            raise Failed(
                f"dataset {dataset.name}: {place!r} broke off after row {number}: "
                f"{type(error).__name__}: {error}. {hint}"
            ) from error

    return Source(place, total, read)
