"""What is written to the terminal, by a thread of its own, without ever making the screen wait.

A terminal that is not read (a stopped tmux, a frozen SSH link) blocks whoever writes to it. So
writes are queued up to a bound; beyond it whole frames are left out, and when the terminal has
caught up, the whole screen is drawn once more. What is queued is always whole: no escape sequence
is ever cut.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Callable

PENDING_BYTES = 256 * 1024
"""A full repaint of a very large screen in 24-bit colour, twice: less would leave out frames that
are merely large, more would show old figures for longer on a slow line."""
DRAIN_S = 1.0
"""How long leaving waits for a terminal that does not read."""


class Outlet:
    """A bounded queue of output and the thread that writes it."""

    def __init__(
        self,
        fd: int,
        on_caught_up: Callable[[], None],
        on_gone: Callable[[], None],
        limit: int = PENDING_BYTES,
    ) -> None:
        """`on_caught_up` is called when output was left out and the queue is empty again, `on_gone`
        when the terminal refuses output for good; both from the writing thread."""
        self._fd = fd
        self._on_caught_up, self._on_gone = on_caught_up, on_gone
        self._limit = limit
        self._queue: deque[bytes] = deque()
        self._pending = 0
        self._lost = self._gone = self._ending = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True, name="terminal-output")

    @property
    def behind(self) -> bool:
        """Whether output is being left out because the terminal does not read."""
        return self._lost

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def write(self, text: str, must: bool = False) -> bool:
        """Queue one whole piece of output; `must` is for what sets the terminal's modes, which is
        short and never left out. Never blocks. False: it was left out."""
        data = text.encode("utf-8", "replace")
        with self._changed:
            if self._gone or (self._lost and not must):
                return False
            if self._pending + len(data) > self._limit and self._pending and not must:
                self._lost = True
                return False
            self._queue.append(data)
            self._pending += len(data)
            self._changed.notify_all()
        return True

    def stop(self, wait_s: float = DRAIN_S) -> None:
        """Write what is queued, and give up on a terminal that does not take it in time."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(wait_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._ending:
                    self._changed.wait()
                if not self._queue:
                    return
                data = b"".join(self._queue)
                self._queue.clear()
            if not self._put(data):
                with self._changed:
                    self._gone, self._pending = True, 0
                    self._queue.clear()
                self._on_gone()
                return
            with self._changed:
                self._pending -= len(data)
                caught_up = self._lost and not self._queue
                if caught_up:
                    self._lost = False
            if caught_up and not self._ending:
                self._on_caught_up()

    def _put(self, data: bytes) -> bool:
        """Write all of it, however long that takes; False when nobody will ever read it."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                # Somebody left the terminal in non-blocking mode.
                with contextlib.suppress(OSError, ValueError):
                    select.select([], [self._fd], [], 1.0)
            except OSError:
                return False
        return True
