"""Memory that is free, given back to the system.

glibc keeps what was freed between two things that are in use: some 4 MB of a screen after a few
hours (`benchmarks/day.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

GIVE_BACK_S = 300.0
"""How often."""


def give_back() -> None:
    """Give back whole free pages; with another C library nothing is done."""
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return int
    return trim
