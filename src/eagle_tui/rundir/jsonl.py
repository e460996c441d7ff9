"""Append-only JSONL: repaired on open, one writer, read by splitting bytes at `\\n` only.

U+2028, NEL and the like occur inside real strings, so lines are never split as text.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from eagle_tui.text import parse_json, scrub

CHUNK = 1 << 20


class LockedError(RuntimeError):
    """Another process has the file open for writing."""


@dataclass(frozen=True)
class Repair:
    """What was cut off a file on open: bytes of a torn last line or of a run of NULs."""

    cut: int
    kept: int
    quarantine: Path | None


def encode(row: dict[str, Any]) -> bytes:
    """One line with its newline. NaN is refused (ValueError); lone surrogates become U+FFFD."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return scrub(text).encode() + b"\n"


def lines(path: Path, start: int = 0, *, buffer: int = CHUNK) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes (without newline) of each whole line from `start`; a torn tail is left out.

    A missing file has no lines. Memory: the longest line plus `buffer`.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(start)
        offset, rest = start, b""
        while chunk := file.read(buffer):
            parts = (rest + chunk).split(b"\n")
            rest = parts.pop()
            for part in parts:
                yield offset, part
                offset += len(part) + 1


def rows(path: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """The objects of a file that we wrote. A line that is no JSON object is a ValueError."""
    for offset, line in lines(path, start):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise ValueError(f"{path}: byte {offset}: not valid JSON ({error})") from error
        if not isinstance(row, dict):
            raise ValueError(
                f"{path}: byte {offset}: expected an object, found {type(row).__name__}"
            )
        yield row


def repair(path: Path) -> Repair | None:
    """Cut a torn last line and trailing NULs (left by a crash or a full disk) off the file.

    What is cut goes to `<name>.torn` beside it. None when the file is whole or missing.
    """
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        end = _last_newline(file, size) + 1
        # A block that was allocated but never written reads as NULs, and may hold newlines after it
        # only when something was appended later; those lines do not parse and are cut too.
        while end > 0:
            start = _last_newline(file, end - 1) + 1
            file.seek(start)
            line = file.read(end - start)
            if line.strip(b"\0\n \r") and b"\0" not in line:
                break
            if line == b"\n":
                break
            end = start
        if end == size:
            return None
        file.seek(end)
        torn = file.read(size - end)
        quarantine: Path | None = None
        if torn.strip(b"\0\n"):
            quarantine = path.with_name(path.name + ".torn")
            with quarantine.open("ab") as out:
                out.write(torn.rstrip(b"\n") + b"\n")
        file.truncate(end)
        file.flush()
        os.fsync(file.fileno())
    return Repair(cut=size - end, kept=end, quarantine=quarantine)


def _last_newline(file: Any, end: int) -> int:
    """Offset of the last newline before `end`; -1 when there is none."""
    while end > 0:
        start = max(0, end - CHUNK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + int(found)
        end = start
    return -1


class Appender:
    """The one writer of a JSONL file. Holds a lock on it; other processes get LockedError.

    A write that fails half-way (full disk) is cut back, so the file always ends with a whole line;
    the OSError goes to the caller, and the row may be appended again later.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise LockedError(f"{path} is being written by another process") from error
        self.repaired = repair(path)
        self.offset = os.lseek(self._fd, 0, os.SEEK_END)
        self._dirty = False

    def append(self, row: dict[str, Any]) -> int:
        """Write one row; gives the offset at which it begins. Not yet forced to disk."""
        return self.append_bytes(encode(row))

    def append_bytes(self, data: bytes) -> int:
        """As `append`, for bytes that end with a newline."""
        start = self.offset
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self._fd, view, self.offset)
                self.offset += written
                view = view[written:]
        except OSError:
            os.ftruncate(self._fd, start)
            self.offset = start
            raise
        self._dirty = True
        return start

    def sync(self) -> None:
        """Force what was written to disk."""
        if self._dirty:
            os.fdatasync(self._fd)
            self._dirty = False

    def close(self) -> None:
        """Force to disk and give up the lock."""
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Tail:
    """Follows a growing JSONL file by byte offset; a half-written last line is read next time."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def read(self, limit: int = 100_000) -> list[dict[str, Any]]:
        """The rows that are new and whole, at most `limit`. A line that is no JSON object (written
        by a failing disk or by hand) is passed over: it must not stop whoever follows the file."""
        found: list[dict[str, Any]] = []
        for offset, line in lines(self.path, self.offset):
            self.offset = offset + len(line) + 1
            try:
                row = parse_json(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                found.append(row)
            if len(found) >= limit:
                break
        return found
