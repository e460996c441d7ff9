"""Processes by identity: a pid together with the time at which that process started.

A pid alone is reused by the system. Ages are not taken from boot time and wall clock, which differ
inside PID namespaces and after a clock change, but from the kernel's own start tick where there is
one.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

TOKEN_ENV = "EAGLE_TUI_TOKEN"
"""Each attempt's processes carry its token in this variable, so they can be found again."""


@dataclass(frozen=True)
class Process:
    """One process. `started` is the kernel's start tick (Linux) or the creation time in 1/100 s."""

    pid: int
    started: int


def start_tick(pid: int) -> int | None:
    """When the process started; None when there is none, or only its zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.is_dir():
        try:
            # The name in parentheses may hold anything, so fields are counted after the last one.
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return round(process.create_time() * 100)
    except psutil.NoSuchProcess:
        return None


def is_stopped(process: Process) -> bool:
    """Whether that very process is held by a stop signal (SIGSTOP, ctrl+z) or a debugger."""
    if not alive(process):
        return False
    try:
        return psutil.Process(process.pid).status() in (
            psutil.STATUS_STOPPED,
            psutil.STATUS_TRACING_STOP,
        )
    except psutil.Error:
        return False


def current() -> Process:
    """This process."""
    return Process(os.getpid(), start_tick(os.getpid()) or 0)


def identify(pid: int) -> Process | None:
    """The process that has this pid now; None when there is none."""
    tick = start_tick(pid)
    return None if tick is None else Process(pid, tick)


def alive(process: Process) -> bool:
    """Whether that very process still runs."""
    return start_tick(process.pid) == process.started


def with_token(token: str) -> Iterator[Process]:
    """Every living process of ours whose environment carries `token`."""
    entry = f"{TOKEN_ENV}={token}".encode()
    proc = Path("/proc")
    if not proc.is_dir():
        for found in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if found.environ().get(TOKEN_ENV) == token and (p := identify(found.pid)):
                    yield p
        return
    for path in proc.iterdir():
        if not path.name.isdigit():
            continue
        try:
            environment = (path / "environ").read_bytes()
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue
        if entry in environment.split(b"\0") and (process := identify(int(path.name))):
            yield process


def token_of(pid: int) -> str | None:
    """The token that a process carries in its environment; None when it carries none, is gone, or
    is not ours to look at."""
    try:
        environment = psutil.Process(pid).environ()
    except (psutil.Error, OSError, ValueError):
        return None
    return environment.get(TOKEN_ENV)


def session_of(pid: int) -> int | None:
    """The session of a process: the pid of the process that began it; None when it is gone."""
    try:
        return os.getsid(pid) if pid > 0 else None
    except (ProcessLookupError, PermissionError, OverflowError):
        return None


def in_session_of(leader: Process) -> Iterator[Process]:
    """Processes of the session that `leader` began, it included. A program that writes its title
    over its environment (as SGLang's children do) is found by this, and not by a token.

    A session's number is not given to another process while one is left in it; when a later
    process has it all the same, nothing is left of the session that is meant.
    """
    now = identify(leader.pid)
    if now is not None and now != leader:
        return
    for pid in psutil.pids():
        try:
            if os.getsid(pid) != leader.pid:
                continue
        except (ProcessLookupError, PermissionError):
            continue
        if (process := identify(pid)) and process.started >= leader.started:
            yield process


def title(process: Process) -> str:
    """The first words of its command line, for a sentence, the program without its path; empty when
    it is gone."""
    try:
        words = psutil.Process(process.pid).cmdline()
    except psutil.Error:
        return ""
    words[:1] = [word.rpartition("/")[2] or word for word in words[:1]]
    return " ".join(" ".join(words[:4]).split())[:80]


def send(process: Process, signal_number: int) -> bool:
    """Signal that very process; False when it is gone."""
    if not alive(process):
        return False
    try:
        os.kill(process.pid, signal_number)
    except ProcessLookupError:
        return False
    return True


def family(token: str, leader: Process | None) -> list[Process]:
    """Every living process of an attempt: those that carry its token, and those of its session,
    where it is known who began it."""
    return list({*with_token(token), *(in_session_of(leader) if leader else ())})


def kill(processes: Iterable[Process]) -> int:
    """SIGKILL to each; gives how many were there."""
    return sum(send(process, signal.SIGKILL) for process in processes)
