"""Who has a run: what its supervisor wrote into the lock that it holds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """The supervisor that took the lock last; it may be gone."""

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
