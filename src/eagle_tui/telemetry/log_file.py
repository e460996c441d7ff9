"""Follows a log that another process writes: by offset, over rotation and truncation, whatever
bytes are in it."""

from __future__ import annotations

import os
from pathlib import Path

MAX_LINE = 16_384
"""Bytes of a line that are kept; the rest of a longer one is passed over."""
READ_MOST = 4 << 20
"""Bytes of one look. When more has come, the older part is passed over."""


class LogFile:
    """One file. Lines end with LF or CR: progress bars redraw themselves with CR."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode: int | None = None
        self._rest = b""
        self._skip = False
        self.passed_over = False
        """A part of the file was not read, since too much had come."""

    def read(self) -> tuple[list[str], str]:
        """The new whole lines, and what there is so far of the one after them (a progress bar ends
        with no line end). Both are text with U+FFFD for what is no UTF-8. A file that is not there
        has no lines; one that became shorter, or another one, is read from its beginning."""
        try:
            with self.path.open("rb") as file:
                at = os.fstat(file.fileno())
                if at.st_ino != self._inode or at.st_size < self._offset:
                    self._inode, self._offset, self._rest, self._skip = at.st_ino, 0, b"", False
                    self.passed_over = False
                if at.st_size - self._offset > READ_MOST:
                    self._offset, self._rest, self._skip = at.st_size - READ_MOST, b"", True
                    self.passed_over = True
                file.seek(self._offset)
                data = file.read(READ_MOST)
        except OSError:
            return [], ""
        self._offset += len(data)
        parts = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        rest = parts.pop()
        if self._skip and parts:
            # The end of a line whose beginning was passed over, or kept already.
            parts.pop(0)
            self._skip = False
        lines = [_text(part) for part in parts if part.strip()]
        if len(rest) > MAX_LINE and not self._skip:
            lines.append(_text(rest))
            self._skip = True
        self._rest = b"" if self._skip else rest
        return lines, _text(self._rest)


def _text(line: bytes) -> str:
    return line[:MAX_LINE].decode("utf-8", "replace")
