"""Who has a run, or a phase of it: locks that name the process that holds them."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path


class Taken(RuntimeError):
    """Another process holds the lock; the message names it."""


@dataclass(frozen=True)
class Owner:
    """The process that took a lock last; it may be gone."""

    pid: int
    started: int
    """Its start time, see `eagle_tui.proc`."""
    host: str

    @property
    def here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.host == os.uname().nodename

    @property
    def words(self) -> str:
        """For a sentence: `pid 12 on host a`."""
        return f"pid {self.pid} on host {self.host}"

    def to_json(self) -> str:
        """As the lock holds it."""
        return json.dumps({"pid": self.pid, "started": self.started, "host": self.host})


def take(lock: Path, pid: int, started: int, *, mode: int = 0o600) -> int:
    """Take a lock for the process `pid`, which is this one, and write its name into it; the
    descriptor holds it for the life of the process. Taken when another one has it; OSError when
    the file cannot be made."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        has_it = parse(os.pread(fd, 4096, 0))
        os.close(fd)
        raise Taken(has_it.words if has_it else "a process that has not told its name") from None
    me = Owner(pid, started, os.uname().nodename)
    os.ftruncate(fd, 0)
    os.pwrite(fd, me.to_json().encode() + b"\n", 0)
    return fd


def read(lock: Path) -> Owner | None:
    """What stands in the lock; None when there is none, or nothing that can be read."""
    try:
        return parse(lock.read_bytes()[:4096])
    except OSError:
        return None


def parse(text: bytes) -> Owner | None:
    """The text of a lock; None when it is none."""
    try:
        body = json.loads(text)
        return Owner(int(body["pid"]), int(body["started"]), str(body["host"]))
    except (ValueError, TypeError, KeyError):
        return None
