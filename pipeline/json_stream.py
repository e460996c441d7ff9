"""Rows out of JSON files of any size: lines, and the elements of one big array.

Memory: a chunk plus the longest row. A row that is broken is told as such and the rest goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any

CHUNK = 1 << 20
MAX_ROW = 256 << 20
"""Bytes of one row. More can only be a file that is not what it seems."""
BOM = b"\xef\xbb\xbf"

_STRUCTURE = re.compile(rb'["{}\[\],]')
_STRING_PART = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
"""Of a string, as far as it is there: up to its quote, or to the end or a last lone backslash."""
_SPACE = b" \t\r\n"


class BrokenFileError(ValueError):
    """The file as a whole cannot be read as JSON rows; the message says where and why."""


def parse(data: bytes) -> Any:
    """JSON of one row. ValueError for anything that is not JSON in UTF-8; NaN and infinities, which
    are no JSON, become null."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each line, the last one also without a newline.

    Split at byte `\\n` only (U+2028 and the like occur inside real strings); a CR at the end and a
    byte-order mark at the beginning of a line (files that were joined) are cut off.
    """
    offset, rest = 0, bytearray()
    while chunk := file.read(CHUNK):
        first, *parts = chunk.split(b"\n")
        rest += first  # a line of many chunks is not copied with each of them
        if parts:
            parts.insert(0, bytes(rest))
            rest = bytearray(parts.pop())
        for part in parts:
            yield offset, _clean(part)
            offset += len(part) + 1
        if len(rest) > MAX_ROW:
            raise BrokenFileError(f"byte {offset}: a line of more than {MAX_ROW >> 20} MB")
    if rest:
        yield offset, _clean(bytes(rest))


def _clean(line: bytes) -> bytes:
    return line.removesuffix(b"\r").removeprefix(BOM)


def read_array(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each element of the array that the file holds.

    BrokenFileError when the file ends inside the array, or holds something after it.
    """
    scan = _ArrayScan(file)
    yield from scan.elements()


class _ArrayScan:
    """A window of the file; `base` is the offset of its first byte."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._base = 0
        self._window = bytearray()  # grows in place: an element of many chunks is not copied

    def _more(self) -> bool:
        chunk = self._file.read(CHUNK)
        self._window += chunk
        return bool(chunk)

    def _drop(self, size: int) -> None:
        self._base += size
        del self._window[:size]

    def elements(self) -> Iterator[tuple[int, bytes]]:
        at = self._begin()
        depth = 0
        start = at  # of the present element, in the window
        while True:
            found = _STRUCTURE.search(self._window, at)
            if found is None:
                at = len(self._window)
                start, at = self._slide(start, at)
                continue
            sign = found.group()
            at = found.end()
            if sign == b'"':
                start, at = self._string(start, at)
            elif sign in b"{[":
                depth += 1
            elif sign in b"}]" and depth:
                depth -= 1
            elif not depth:
                element = self._window[start : found.start()].strip(_SPACE)
                if element:
                    yield self._base + start, bytes(element)
                if sign == b"]":
                    self._end(at)
                    return
                start = at
                if start > CHUNK:
                    self._drop(start)
                    at -= start
                    start = 0

    def _string(self, start: int, at: int) -> tuple[int, int]:
        """Past the string that is open at `at`; what was looked at is not looked at again."""
        while True:
            part = _STRING_PART.match(self._window, at)
            assert part is not None  # it may be empty
            at = part.end()
            if self._window[at : at + 1] == b'"':
                return start, at + 1
            start, at = self._slide(start, at)

    def _begin(self) -> int:
        while not self._window.removeprefix(BOM).lstrip(_SPACE) and self._more():
            pass
        return self._window.index(b"[") + 1

    def _slide(self, start: int, at: int) -> tuple[int, int]:
        """Read on; what lies before the present element is let go."""
        self._drop(start)
        at -= start
        if len(self._window) > MAX_ROW:
            raise BrokenFileError(f"byte {self._base}: an element of more than {MAX_ROW >> 20} MB")
        if not self._more():
            raise BrokenFileError(
                f"the array has no end: the file stops inside the element at byte {self._base}"
            )
        return 0, at

    def _end(self, at: int) -> None:
        while not (rest := self._window[at:].strip(_SPACE)):
            self._drop(len(self._window))
            at = 0
            if not self._more():
                return
        raise BrokenFileError(
            f"something follows the array at byte {self._base + at}: {bytes(rest[:40])!r}"
        )
