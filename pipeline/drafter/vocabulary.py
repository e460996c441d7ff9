"""The draft vocabulary: the tokens that the drafter may propose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

_COUNT_AT_ONCE: Final = 1 << 20
"""Tokens per count: one over the whole vocabulary for each row would take longer than reading."""


@dataclass(frozen=True)
class DraftVocabulary:
    """Which of the target's tokens are kept."""

    ids: npt.NDArray[np.int64]
    """[Vd], ascending."""
    size: int
    """V, of the target."""
    coverage: float
    """Share of the supervised tokens that are kept."""

    @property
    def whole(self) -> bool:
        return len(self.ids) == self.size


def count_tokens(
    rows: Iterable[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]], size: int
) -> npt.NDArray[np.int64]:
    """How often every token of `size` is supervised, int64 [V], in rows of ids and masks.
    ValueError for an id outside the vocabulary."""
    counts = np.zeros(size, np.int64)
    held: list[npt.NDArray[np.int32]] = []
    waiting = 0

    def count() -> None:
        chosen = np.concatenate(held) if held else np.zeros(0, np.int32)
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < size:
            raise ValueError(
                f"token id {int(chosen.max())} is outside the target's vocabulary of {size}"
            )
        counts[:] += np.bincount(chosen, minlength=size)
        held.clear()

    for ids, mask in rows:
        held.append(ids[mask == 1])
        waiting += len(held[-1])
        if waiting >= _COUNT_AT_ONCE:
            count()
            waiting = 0
    count()
    return counts


def choose(
    counts: npt.NDArray[np.int64], wanted: int | None, always: Iterable[int] = ()
) -> DraftVocabulary:
    """The `wanted` most frequent tokens and, first of all, those in `always` (ends of an answer).
    Of equally frequent ones the smaller id goes first. None, or V and more: all of them.
    ValueError when `always` alone is more than `wanted`."""
    size = len(counts)
    if wanted is None or wanted >= size:
        return DraftVocabulary(np.arange(size, dtype=np.int64), size, 1.0)
    forced = np.unique(np.fromiter(always, np.int64))
    if len(forced) > wanted:
        raise ValueError(f"a draft vocabulary of {wanted} cannot hold {len(forced)} end tokens")
    rank = counts.astype(np.int64)
    first = np.zeros(size, np.bool_)
    first[forced] = True
    order = np.lexsort((np.arange(size), -rank, ~first))
    ids = np.sort(order[:wanted]).astype(np.int64)
    total = int(counts.sum())
    coverage = float(counts[ids].sum() / total) if total else 0.0
    return DraftVocabulary(ids, size, coverage)
