"""The socket of a run, and that there is one supervisor behind it.

Both are files of the run directory, and files are removed: by a cleaner, or by somebody who takes
them for stale. Without its socket a supervisor could be asked nothing any more, and without its
lock a second one would begin. So both are looked at, and put back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from eagle_tui.rundir import owner
from eagle_tui.rundir.identity import identity
from eagle_tui.rundir.owner import Taken
from eagle_tui.rundir.paths import RunDir
from eagle_tui.rundir.unixsocket import address

HEADERS_S = 1.0
"""How often the time in the answers' headers goes on."""
LOOK_S = 1.0


def listen(path: Path) -> socket.socket:
    """The socket, mode 0600 from its first moment; one left by a dead supervisor is replaced."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        server.bind(address(path))
    except OSError:
        server.close()
        raise
    finally:
        os.umask(before)
    return server


class SocketServer(uvicorn.Server):
    """Signals belong to the supervisor, not to uvicorn; and it does not wake ten times a second
    only to look whether it shall end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """End `serve`."""
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """Until `leave`; once a second the time in the answers' headers goes on."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), HEADERS_S)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Door:
    """Lock and socket of a run that this process has."""

    def __init__(self, run: RunDir, lock: int, pid: int, started: int) -> None:
        """`lock`: descriptor of the lock, as `owner.take` gave it to this process. OSError when
        the socket cannot be made."""
        self._run = run
        self._lock, self._pid, self._started = lock, pid, started
        self._root = identity(run.root)
        self._server = listen(run.socket)
        self._mine = identity(run.socket)
        self._closing = asyncio.Event()

    async def serve(self, config: uvicorn.Config, lost: Callable[[str], object]) -> None:
        """Answer until `close`. `lost` is called with who has it when another process took the run
        over meanwhile."""
        while not self._closing.is_set():
            web = SocketServer(config)
            serving = asyncio.create_task(web.serve(sockets=[self._server]))
            try:
                await self._watch(lost)
            finally:
                web.leave()
                await serving

    def close(self) -> None:
        """End `serve`."""
        self._closing.set()

    def leave(self) -> None:
        """Take the socket away, if it is ours, and let go of the lock."""
        with contextlib.suppress(OSError):
            if identity(self._run.socket) == self._mine:
                self._run.socket.unlink()
        self._server.close()
        os.close(self._lock)

    async def _watch(self, lost: Callable[[str], object]) -> None:
        """Until `close`, or until the socket had to be made anew."""
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), LOOK_S)
            if self._closing.is_set():
                return
            try:
                # One that was moved away, or another one in its place, is not ours to mend.
                if identity(self._run.root) != self._root:
                    continue
                self._keep_lock()
                if identity(self._run.socket) != self._mine:
                    self._server = listen(self._run.socket)
                    self._mine = identity(self._run.socket)
                    return
            except Taken as error:
                lost(str(error))
                self._closing.set()
            except OSError:
                continue  # nothing can be seen or written there now

    def _keep_lock(self) -> None:
        """Taken when another process has the run."""
        stat = os.fstat(self._lock)
        if identity(self._run.lock) == (stat.st_dev, stat.st_ino):
            return
        fresh = owner.take(self._run.lock, self._pid, self._started)
        os.close(self._lock)
        self._lock = fresh
