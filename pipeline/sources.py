"""Raw rows of a dataset: local JSONL, JSON, Parquet and SWE-agent files, or Hugging Face."""

from __future__ import annotations

import gzip
import json
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
    if not path.exists():
        raise Refused(
            f"dataset {dataset.name}: there is no file {path}. Correct `source` in run.toml "
            "(paths are relative to it)."
        )
    if path.is_dir():
        found = sorted(path.rglob("*.traj"))
        return _trajectories(path, found) if found else _hugging_face(dataset, str(path))
    if path.stat().st_size == 0:
        raise Refused(f"dataset {dataset.name}: {path} is empty.")
    if path.suffix == ".parquet":
        return _parquet(dataset, path)
    return _json(dataset, path)


def _json(dataset: DatasetSection, path: Path) -> Source:
    """What a file holds is seen from its beginning, not from its name."""
    with _open(path) as file:
        head = file.read(json_stream.CHUNK)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused(f"dataset {dataset.name}: {path} is in UTF-16. Convert it to UTF-8.")
    body = head.removeprefix(json_stream.BOM).lstrip(b" \t\r\n")
    if body.startswith(b"[") and not _is_row_list(body):
        return Source(str(path), None, lambda: _parsed(path, json_stream.read_array))
    total = _count_lines(path) if path.suffix != ".gz" else None
    if body.startswith(b"{") and (total == 1 or not _first_line_is_whole(body)):
        return Source(str(path), None, lambda: _single_object(path))
    return Source(str(path), total, lambda: _parsed(path, json_stream.read_lines))


def _is_row_list(body: bytes) -> bool:
    """Is every line a JSON array of its own (a row that is a list of turns)?"""
    lines = body.split(b"\n")[:2]
    if len(lines) < 2 or not lines[1].lstrip().startswith(b"["):
        return False
    try:
        return isinstance(json_stream.parse(lines[0]), list)
    except ValueError:
        return False


def _first_line_is_whole(body: bytes) -> bool:
    """Is the first line an object (or too long to say)? A pretty-printed object is not."""
    line, newline, _ = body.partition(b"\n")
    if not newline:
        return True
    try:
        json_stream.parse(line)
    except ValueError:
        return len(line.strip()) > 1 and not line.rstrip().endswith((b"{", b"[", b","))
    return True


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


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
    except (OSError, EOFError, json_stream.BrokenFileError) as error:
        raise Failed(f"{path}: cannot be read after row {number}: {error}") from error


def _single_object(path: Path) -> Iterator[RawRow]:
    """A file that is one object: a row (a SWE-agent trajectory), or rows under one of its keys."""
    with _open(path) as file:
        data = file.read(_WHOLE_FILE + 1)
    if len(data) > _WHOLE_FILE:
        raise Failed(
            f"{path} is one JSON object of more than {_WHOLE_FILE >> 20} MB. Write its rows as "
            "JSONL, one object a line."
        )
    try:
        body = json_stream.parse(data.removeprefix(json_stream.BOM))
    except ValueError as error:
        raise Failed(f"{path}: not valid JSON ({error}).") from error
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
            for row in _single_object(file):
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
