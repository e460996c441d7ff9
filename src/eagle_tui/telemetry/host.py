"""The machine itself: CPU, memory, and when the run's file system will be full."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from eagle_tui.clock import Clock
from eagle_tui.telemetry.memory import memory

TREND_LEAST_S = 600.0
"""A trend of a few minutes says nothing about days."""
TREND_S = 3600.0
"""How far back disk use is looked at for the time at which it will be full."""
FREED = 1 << 30
"""Bytes; when more than this became free at once, the trend begins anew."""


@dataclass(frozen=True)
class HostFigures:
    """One look; shares are 0..1, sizes in bytes."""

    cpu: float | None
    mem: float
    mem_used: int
    mem_total: int
    disk_free: int
    disk_full_at: float | None
    """Unix time at which the disk is full at the pace of the last hour; None: not in sight."""


class HostSampler:
    """Samples the machine; the first CPU figure is None, since it is a difference."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._free: list[tuple[float, int]] = []
        psutil.cpu_percent(None)
        self._first = True

    def sample(self) -> HostFigures:
        """One look. OSError when the file system is gone."""
        ram = memory()
        cpu = psutil.cpu_percent(None) / 100
        free = shutil.disk_usage(self._path).free
        first, self._first = self._first, False
        return HostFigures(
            cpu=None if first else cpu,
            mem=ram.used / ram.total if ram.total else 0.0,
            mem_used=ram.used,
            mem_total=ram.total,
            disk_free=free,
            disk_full_at=self._full_at(free),
        )

    def _full_at(self, free: int) -> float | None:
        mono = self._clock.monotonic()
        if self._free and free > self._free[-1][1] + FREED:
            # Somebody made room: what was before says nothing of what comes.
            self._free.clear()
        if not self._free or mono - self._free[-1][0] >= 10.0:
            self._free.append((mono, free))
            while mono - self._free[0][0] > TREND_S:
                self._free.pop(0)
        start, free_then = self._free[0]
        if mono - start < TREND_LEAST_S or free >= free_then:
            return None
        per_s = (free_then - free) / (mono - start)
        left = free / per_s
        return self._clock.wall() + left if left < 30 * 86400 else None
