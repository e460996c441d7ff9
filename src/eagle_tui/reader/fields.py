"""Fields of a file that may be of another version, cut, or edited by hand."""

from __future__ import annotations

import math
from typing import Any

LARGEST = 1e15
"""Beyond this a figure is a fault of whoever wrote it."""


def as_dict(value: object) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_number(value: object) -> float | None:
    """A figure that can be one: finite, not negative, no truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number <= LARGEST else None


def as_whole(value: object) -> int | None:
    """A count; None for what is none."""
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None
