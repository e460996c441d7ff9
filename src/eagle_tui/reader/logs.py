"""Pages of the logs in a run directory: by offset, text, level or time. Never a whole file."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path

from eagle_tui import loglines
from eagle_tui.loglines import BLOCK, Row
from eagle_tui.records import LogFile, LogLine, LogPage, LogQuery
from eagle_tui.rundir.paths import RunDir

SUFFIXES = (".log", ".txt")
"""Of what processes write, and of what was noted of one that hung."""
LOOK = 64 << 20
"""Bytes of one look for a text or a level."""
MOST_ROWS = 1000
BATCH = 250
"""Rows that are made at once."""
CONTEXT = 60
"""Rows before one that tell whether it continues a traceback."""
_PROBES = 16
"""Blocks without any time that are passed over in the search for one."""
_ERROR_WORDS = (
    b"error", b"critical", b"fatal", b"traceback", b"exception", b"segmentation", b"killed",
    b"dumped",
)  # fmt: skip
_WORDS = {"error": _ERROR_WORDS, "warning": (*_ERROR_WORDS, b"warn")}
"""One of these stands, in small letters, in every row of that level that does not merely continue
another one. Looking for words is much faster than a pattern of them: 64 MB in 0.3 s."""
_BLANK = (b" ", b"\t")
_JOINS = (b"During handling", b"The above exception")


class NoSuchLog(LookupError):
    """There is no log of that name."""


class LogReader:
    """Reads the logs of one run. Keeps nothing but the run's path."""

    def __init__(self, run: RunDir, zone: tzinfo | None = None) -> None:
        """`zone` is that of stamps without one; None: local time."""
        self._run = run
        self._zone = zone

    def files(self) -> list[LogFile]:
        """All logs, the one written last first."""
        found = []
        for path in self._run.logs.glob("*"):
            try:
                stat = path.stat()
            except OSError:
                continue
            if path.suffix in SUFFIXES and path.is_file():
                found.append(LogFile(name=path.name, size=stat.st_size, modified=stat.st_mtime))
        return sorted(found, key=lambda file: (-file.modified, file.name))

    def page(self, query: LogQuery) -> LogPage:
        """One bounded look. NoSuchLog when there is no such file."""
        path = self._path(query.name)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            at = size if query.at is None else min(max(query.at, 0), size)
            return self._look(fd, query, at, size)
        finally:
            os.close(fd)

    def at_time(self, name: str, at: float) -> int | None:
        """The byte of the first row that was written at Unix time `at` or later, the end when there
        is none; None when the log holds no times. Times in a log only grow."""
        path = self._path(name)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            low, high = 0, -(-size // BLOCK)
            found, timed = size, False
            while low < high:
                middle = (low + high) // 2
                probe = self._first_time(fd, size, middle, high)
                if probe is None:
                    high = middle
                    continue
                timed = True
                block, when, offset = probe
                if when >= at:
                    found, high = offset, middle
                else:
                    low = block + 1
            if not timed:
                return None
            # The row itself may lie after the first time of the block before.
            return self._within(fd, size, max(low - 1, 0), at, found)
        finally:
            os.close(fd)

    def _path(self, name: str) -> Path:
        path = self._run.logs / name
        if path.name != name or path.suffix not in SUFFIXES or not path.is_file():
            raise NoSuchLog(f"{self._run.logs}: no log is named {name[:80]!r}")
        return path

    def _look(self, fd: int, query: LogQuery, at: int, size: int) -> LogPage:
        wanted = min(max(query.rows, 1), MOST_ROWS)
        lines: list[LogLine] = []
        looked = 0
        start = end = at
        # Where a row begins that is not written to its end: there one goes on.
        whole = size
        for block in _blocks(at, size, query.backward):
            if looked >= LOOK:
                break
            looked += BLOCK
            border = block if query.backward else min(block + BLOCK, size)
            last_block = block + BLOCK >= size
            if not _may_hold(fd, block, query):
                start, end = (border, end) if query.backward else (start, border)
                # The last row may go on; so its block is looked at again.
                whole = block if last_block else whole
                continue
            data, base = _around(fd, block)
            rows = loglines.rows_of_block(data, base, block)
            if last_block and rows and data[-1:] != b"\n":
                whole = rows[-1].start
            inside = [i for i, r in enumerate(rows) if (r.start < at) == query.backward]
            found = self._pick(data, base, rows, inside, query, wanted - len(lines))
            picked = [line for _, line in found]
            lines = [*picked, *lines] if query.backward else [*lines, *picked]
            if len(lines) >= wanted:
                edge = rows[found[0 if query.backward else -1][0]]
                start, end = (edge.start, end) if query.backward else (start, edge.end)
                break
            start, end = (border, end) if query.backward else (start, border)
        done = start <= 0 if query.backward else end >= size
        return LogPage(lines=tuple(lines), start=start, end=min(end, whole), size=size, done=done)

    def _pick(
        self,
        data: bytes,
        base: int,
        rows: list[Row],
        inside: list[int],
        query: LogQuery,
        room: int,
    ) -> list[tuple[int, LogLine]]:
        """Of the rows `inside`, the first (backward: last) `room` that are wanted, with their
        numbers, in the order of the file."""
        needle = query.text.casefold()
        if needle.isascii():
            raw = needle.encode()
            inside = [
                i for i in inside if raw in data[rows[i].start - base : rows[i].end - base].lower()
            ]
        if query.level in _WORDS:
            severe = _severe(data, base, rows, _WORDS[query.level])
            inside = [i for i in inside if i in severe]
        found: list[tuple[int, LogLine]] = []
        while inside and len(found) < room:
            part, inside = (
                (inside[-BATCH:], inside[:-BATCH])
                if query.backward
                else (inside[:BATCH], inside[BATCH:])
            )
            made = self._parse(data, base, rows, part, query)
            found = [*made, *found] if query.backward else [*found, *made]
        return found[-room:] if query.backward else found[:room]

    def _parse(
        self, data: bytes, base: int, rows: list[Row], wanted: list[int], query: LogQuery
    ) -> list[tuple[int, LogLine]]:
        """Those of the rows `wanted` that pass the filters. Rows that continue another one have its
        level, so some before each are looked at, too."""
        needle = query.text.casefold()
        numbers = sorted({i for w in wanted for i in _with_head(data, base, rows, w)})
        seen = [loglines.shown(data[rows[i].start - base : rows[i].end - base]) for i in numbers]
        asked = set(wanted)
        found = []
        for i, row in zip(numbers, loglines.carry_levels(seen), strict=True):
            if i not in asked or not loglines.at_least(row.level, query.level):
                continue
            if needle and needle not in row.text.casefold():
                continue
            at = loglines.time_of(row.text, self._zone)
            line = LogLine(
                offset=rows[i].start, text=row.text, level=row.level, at=at, updates=row.updates
            )
            found.append((i, line))
        return found

    def _first_time(
        self, fd: int, size: int, number: int, limit: int
    ) -> tuple[int, float, int] | None:
        """Block, time and offset of the first row with a time in block `number` or after."""
        for block in range(number, min(number + _PROBES, limit)):
            for row, raw in _raw_rows(fd, block * BLOCK):
                when = loglines.time_of(raw[:200].decode("utf-8", "replace"), self._zone)
                if when is not None:
                    return block, when, row.start
        return None

    def _within(self, fd: int, size: int, number: int, at: float, otherwise: int) -> int:
        for row, raw in _raw_rows(fd, number * BLOCK):
            when = loglines.time_of(raw[:200].decode("utf-8", "replace"), self._zone)
            if when is not None and when >= at:
                return row.start
        return otherwise


def _blocks(at: int, size: int, backward: bool) -> Iterator[int]:
    """Blocks in the order in which they are looked through."""
    if backward:
        first = max(at - 1, 0) // BLOCK * BLOCK
        yield from range(first, -1, -BLOCK)
    else:
        yield from range(at // BLOCK * BLOCK, size, BLOCK)


def _around(fd: int, block: int) -> tuple[bytes, int]:
    base = max(block - loglines.BEFORE, 0)
    return os.pread(fd, block + loglines.AFTER - base, base), base


def _raw_rows(fd: int, block: int) -> Iterator[tuple[Row, bytes]]:
    data, base = _around(fd, block)
    for row in loglines.rows_of_block(data, base, block):
        yield row, data[row.start - base : row.end - base]


def _may_hold(fd: int, block: int, query: LogQuery) -> bool:
    """Whether a block can hold a row that is wanted, told without making rows."""
    needle = query.text.lower().encode() if query.text.isascii() else b""
    words = _WORDS.get(query.level or "", ())
    if not needle and not words:
        return True
    data = os.pread(fd, BLOCK + 2 * loglines.CUT, block)
    if b"\r" in data[BLOCK:]:  # a progress bar can be longer
        data = os.pread(fd, loglines.AFTER, block)
    low = data.lower()
    if needle and needle not in low:
        return False
    # What continues an error may stand in the block after it.
    return not words or data[:1] in _BLANK or any(word in low for word in words)


def _severe(data: bytes, base: int, rows: list[Row], words: tuple[bytes, ...]) -> set[int]:
    """The rows that hold one of the words, and those that are indented below one."""
    if not rows:
        return set()
    starts = [row.start - base for row in rows]
    low = data.lower()
    first, end = starts[0], rows[-1].end - base
    found: set[int] = set()
    for word in words:
        at = low.find(word, first, end)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            found.add(index)
            at = low.find(word, rows[index].end - base, end)
    for index in sorted(found):
        below = index + 1
        while below < len(rows) and data[starts[below] : starts[below] + 1] in _BLANK:
            found.add(below)
            below += 1
    return found


def _with_head(data: bytes, base: int, rows: list[Row], index: int) -> range:
    """A row with those before it that it may continue."""
    first = index
    while first > max(index - CONTEXT, 0):
        start = rows[first].start - base
        if data[start : start + 1] not in _BLANK and not data.startswith(_JOINS, start):
            break
        first -= 1
    return range(first, index + 1)
