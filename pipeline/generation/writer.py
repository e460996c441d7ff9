"""Writes results in order, forces them to disk in groups, and waits when the disk is full."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from eagle_tui import troubles
from eagle_tui.rundir import atomic
from eagle_tui.rundir.jsonl import Appender

from ..worker import Failed
from .aio import wait

RETRY_S = 2.0
"""Seconds between attempts to write to a full disk."""


class _Write(NamedTuple):
    path: Path
    data: bytes
    done: Callable[[], None] | None = None
    instead: bool = False
    """The data takes the place of all that the file holds."""


class Writer:
    """The one writer of a worker's files. A file is opened (and repaired) at its first write.

    Results wait in memory while the disk cannot take them; whoever asks for new ones must look at
    `blocked`. Failed: forcing to disk failed, so that it is not known what is there; the next
    worker finds out.
    """

    def __init__(self, interval_s: float, on_change: Callable[[], None]) -> None:
        self._interval = interval_s
        self._on_change = on_change
        self._files: dict[Path, Appender] = {}
        self._queue: deque[_Write] = deque()
        self._wake = asyncio.Event()
        self._kick = asyncio.Event()
        self._dirty: set[Path] = set()
        self._grown: dict[Path, int] = {}
        self._urgent = False
        self.blocked = ""
        """Why nothing can be written now, with the free space; empty when it can."""

    @property
    def unsaved(self) -> bool:
        """Is there anything that is not on disk yet?"""
        return bool(self._queue or self._dirty)

    def put(self, path: Path, data: bytes, done: Callable[[], None] | None = None) -> None:
        """Append one line (with its newline) to a file; `done` is called when it is in the file."""
        self._queue.append(_Write(path, data, done))
        self._grown[path] = self._grown.get(path, 0) + len(data)
        self._wake.set()

    def replace(self, path: Path, data: bytes) -> None:
        """Let these lines take the place of a file's contents, in order with what is put."""
        self._grown[path] = 0
        self._queue.append(_Write(path, data, instead=True))
        self._wake.set()

    def grown(self, path: Path) -> int:
        """Bytes put to a file since it was opened or replaced."""
        return self._grown.get(path, 0)

    def release(self, *paths: Path) -> None:
        """Force files to disk and close them, so that they can be rewritten. Only when nothing is
        unsaved; the next write opens them again."""
        assert not self.unsaved
        for path in paths:
            if (file := self._files.pop(path, None)) is not None:
                file.close()

    def save_soon(self) -> None:
        """Force to disk now, not at the end of the interval; try a full disk again at once."""
        self._urgent = True
        self._wake.set()
        self._kick.set()

    async def run(self) -> None:
        """Write until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if not self._dirty:
                await self._wake.wait()
                due = loop.time() + self._interval
            else:
                await wait(self._wake, max(0.0, due - loop.time()))
            self._wake.clear()
            await self._append_all()
            if self._dirty and (self._urgent or loop.time() >= due):
                self._urgent = False
                await self._sync()
                due = loop.time() + self._interval
                self._on_change()

    async def _append_all(self) -> None:
        while self._queue:
            write = self._queue[0]
            try:
                self._write(write)
            except OSError as error:
                await self._full(write.path, error)
                continue
            if self.blocked:
                self.blocked = ""
                self._on_change()
            self._dirty.add(write.path)
            self._queue.popleft()
            if write.done is not None:
                write.done()

    def _write(self, write: _Write) -> None:
        if write.instead:
            if (file := self._files.pop(write.path, None)) is not None:
                file.close()
            atomic.write_bytes(write.path, write.data)
            self._file(write.path)
        else:
            self._file(write.path).append_bytes(write.data)

    async def _full(self, path: Path, error: OSError) -> None:
        try:
            free = f", {shutil.disk_usage(path.parent).free:,} bytes free"
        except OSError:
            free = ""
        trouble = troubles.of(error)
        remedy = f"{trouble.remedy}; " if trouble.remedy else ""
        self.blocked = f"{path.name}: {trouble.what}{free}. {remedy}it goes on by itself"
        self._on_change()
        self._kick.clear()
        await wait(self._kick, RETRY_S)

    async def _sync(self) -> None:
        # In a thread: a busy disk may take long, and meanwhile answers come in and are queued.
        # Nobody appends then, so that the appender's own mark of what is unsaved stays right.
        loop = asyncio.get_running_loop()
        for path in sorted(self._dirty):
            try:
                await loop.run_in_executor(None, self._files[path].sync)
            except OSError as error:
                raise Failed(
                    f"{path}: could not be forced to disk ({error.strerror or error}). "
                    "Check the disk; what is missing is generated again at the next start."
                ) from error
            self._dirty.discard(path)

    def _file(self, path: Path) -> Appender:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = Appender(path)
        return file

    async def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything is on disk; False when that took too long."""
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        while self.unsaved:
            if end is not None and loop.time() >= end:
                return False
            self.save_soon()
            await asyncio.sleep(0.01)
        return True

    def close(self) -> None:
        """Force to disk and close. What is still queued is lost: `flush` first."""
        for file in self._files.values():
            file.close()
