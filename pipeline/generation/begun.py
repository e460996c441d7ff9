"""Answers that are begun and not finished, by their tokens so far. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from .flight import Flight
from .work import DatasetWork

_STEPS = 4
"""Lengths told for each doubling: what an estimate sees of them is within 9 %, and a line of some
hundred answers stays short."""


def rounded(tokens: int) -> int:
    """The nearest of the lengths that are told."""
    return round(2 ** (round(_STEPS * math.log2(tokens)) / _STEPS)) if tokens > 0 else 0


def begun(works: Iterable[DatasetWork], flights: Iterable[Flight]) -> dict[str, dict[str, int]]:
    """For each dataset, how many answers have how many tokens: those in flight, as far as their
    streams tell, and those held. Lengths are rounded."""
    found: dict[str, Counter[int]] = {}
    for work in works:
        counts = found[work.name] = Counter()
        for job in work.queue.begun():
            if job.so_far:
                counts[rounded(len(job.so_far))] += 1
    for flight in flights:
        tokens = len(flight.job.so_far or ()) + len(flight.streamed or ())
        found[flight.work.name][rounded(tokens)] += 1
    return {name: {str(n): c for n, c in sorted(counts.items())} for name, counts in found.items()}
