"""Host memory as a container sees it: what there is, what can be taken, and what was killed for
want of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")
UNLIMITED = 1 << 60
"""Version 1 writes a number near 2^63 where there is no limit."""


@dataclass(frozen=True)
class Memory:
    """Bytes. `total` is the container's limit when that is lower than the machine's memory."""

    total: int
    used: int

    @property
    def free(self) -> int:
        """What can still be taken; caches that the system gives back count as free."""
        return max(0, self.total - self.used)


def memory(root: Path = CGROUP) -> Memory:
    """The machine's memory, or the container's share of it when that is less."""
    machine = psutil.virtual_memory()
    whole = Memory(int(machine.total), int(machine.total - machine.available))
    limits = [limit for folder in _folders(root) if (limit := _limited(folder, whole.total))]
    return min([whole, *limits], key=lambda m: m.free)


def oom_kills(root: Path = CGROUP) -> int | None:
    """Processes that the system killed for want of memory, in this container (version 2) or on
    this machine, since some start; None when it is not counted. Its growth is what counts."""
    found = [_value(root / name / "memory.events", "oom_kill") for name in ("", _own())]
    counts = [count for count in found if count is not None]
    if counts:
        return max(counts)
    return _value(Path("/proc/vmstat"), "oom_kill")


def _folders(root: Path) -> list[Path]:
    """Where limits may stand: this process's own group and those above it, and the root."""
    own = root / _own()
    return [*{root, own, *(p for p in own.parents if root in p.parents), root / "memory"}]


def _own() -> str:
    try:
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii", errors="replace").split():
            if line.startswith("0::"):
                return line[3:].lstrip("/")
    except OSError:
        pass
    return ""


def _limited(folder: Path, machine: int) -> Memory | None:
    """The limit of one group; None when there is none."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used = _number(folder / limit_name), _number(folder / used_name)
        if limit is None or used is None or limit >= min(machine, UNLIMITED):
            continue
        stat = folder / "memory.stat"
        # File pages that were not used lately are given back before anybody is killed.
        cached = _value(stat, "inactive_file") or _value(stat, "total_inactive_file") or 0
        return Memory(limit, max(0, used - cached))
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii", errors="replace"))
    except (OSError, ValueError):
        return None


def _value(path: Path, key: str) -> int | None:
    """The number after `key` in a file of `key number` lines."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.split("\n"):
        name, _, number = line.partition(" ")
        if name == key and number.strip().isdigit():
            return int(number)
    return None
