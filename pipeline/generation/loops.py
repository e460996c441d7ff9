"""Finding an answer that ends in a loop: the same few tokens again and again."""

from __future__ import annotations

from collections.abc import Sequence

MAX_PERIOD = 256
"""Longest repeated piece that is looked for, in tokens."""
MIN_REPEATS = 6
"""So often a piece must stand in a row: lists and tables repeat a few times and are no loops."""
MIN_SPAN = 96
"""A loop is at least so many tokens: a rule of dashes or a run of zeros is none."""


def loop_period(ids: Sequence[int], *, min_span: int = MIN_SPAN) -> int | None:
    """Length of the piece that fills the end of `ids`; None when they do not end in a loop.

    The loop may break off anywhere in the piece. Cost: some microseconds when there is none.
    """
    size = len(ids)
    if not size:
        return None
    last = ids[-1]
    for period in range(1, min(MAX_PERIOD, size - 1) + 1):
        # Slices are compared only where the last token agrees: this keeps the search cheap.
        if ids[-1 - period] != last:
            continue
        span = max(MIN_REPEATS * period, min_span)
        if span <= size and ids[size - span + period :] == ids[size - span : size - period]:
            return period
    return None
