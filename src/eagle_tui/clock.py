"""Time, injected: rates and ETAs use monotonic seconds, records use wall-clock seconds."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of time. `monotonic` never goes back; `wall` is Unix time and may jump."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never decreasing."""
        ...

    def wall(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()


class ManualClock:
    """A clock for tests: stands still until moved."""

    def __init__(self, wall: float = 1_800_000_000.0, monotonic: float = 1000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def wall(self) -> float:
        return self._wall

    def advance(self, seconds: float) -> None:
        """Let both clocks run on by `seconds`."""
        self._wall += seconds
        self._monotonic += seconds

    def set_wall(self, wall: float) -> None:
        """Set the wall clock alone, as an administrator or NTP would."""
        self._wall = wall
