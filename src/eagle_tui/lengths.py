"""Exact quantiles of token lengths.

Lengths are whole numbers below the longest response, so counting them is exact, small (some
thousand entries) and mergeable; no sketch is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def quantiles(counts: Mapping[int, int], shares: Sequence[float]) -> list[float] | None:
    """The lengths below or at which each of `shares` (0..1, ascending) of all responses lie
    (nearest rank). None when there are no responses."""
    total = sum(counts.values())
    if not total:
        return None
    found: list[float] = []
    seen = 0
    wanted = iter(shares)
    share = next(wanted, None)
    for length in sorted(counts):
        seen += counts[length]
        while share is not None and seen >= max(1.0, share * total):
            found.append(float(length))
            share = next(wanted, None)
    return found


def mean(counts: Mapping[int, int]) -> float | None:
    """Mean length; None when there are no responses."""
    total = sum(counts.values())
    return sum(length * n for length, n in counts.items()) / total if total else None


def from_json(counts: Mapping[str, int]) -> Counter[int]:
    """JSON keys are strings; lengths are numbers."""
    return Counter({int(length): n for length, n in counts.items()})
