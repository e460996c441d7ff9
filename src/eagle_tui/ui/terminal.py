"""Leaving when the terminal is gone. Textual installs no handler for HUP and TERM, and a monitor
that was left in a closed window must not stay there for days."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

GRACE_S = 3.0
"""How long an orderly exit may take before the process ends itself: writes to a dead or stalled
terminal can block for ever, and the screen owns nothing that would be lost."""

_SIGNALS = (signal.SIGHUP, signal.SIGTERM)


class TerminalWatch:
    """Calls `leave` once on HUP, TERM, or when what was a terminal no longer is one."""

    def __init__(self, leave: Callable[[], None], grace_s: float = GRACE_S) -> None:
        self._leave = leave
        self._grace_s = grace_s
        self._leaving = False
        self._fds = [fd for fd in (_fileno(sys.__stdin__), _fileno(sys.__stderr__)) if _is_tty(fd)]

    def start(self) -> None:
        """Install the handlers. Call from the running event loop's main thread; elsewhere (as
        under a test runner's own loop) signals are left alone."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.leave)

    def stop(self) -> None:
        """Take the handlers away."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(number)

    def check(self) -> None:
        """Look whether the terminal is still there; call each second."""
        if any(not _is_tty(fd) for fd in self._fds):
            self.leave()

    def leave(self) -> None:
        """Exit in order, and if that hangs on the dead terminal, without."""
        if self._leaving:
            return
        self._leaving = True
        timer = threading.Timer(self._grace_s, os._exit, args=(0,))
        timer.daemon = True
        timer.start()
        self._leave()


def can_suspend() -> bool:
    """Whether a shell with job control waits behind this process: it is in our session and put us
    in a process group of our own. Else (a tmux window that runs only us, a script) nobody would
    ever let a stopped process go on."""
    parent = os.getppid()
    try:
        return os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgrp()
    except ProcessLookupError:
        return False


def _fileno(stream: object) -> int:
    try:
        return stream.fileno()  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, OSError, ValueError):
        return -1


def _is_tty(fd: int) -> bool:
    try:
        return fd >= 0 and os.isatty(fd)
    except OSError:
        return False
