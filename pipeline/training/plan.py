"""The order of the data and the course of the learning rate: pure functions of the settings, so
that a training that was interrupted goes on exactly where it was, with any number of ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_FLOOR: float = 0.0
"""Share of the peak learning rate at the end."""


@dataclass(frozen=True)
class Place:
    """How far a training is."""

    epoch: int = 0
    packs: int = 0
    """Packs of the epoch that are done, over all ranks."""
    step: int = 0
    """Optimizer steps that are done."""


class Plan:
    """Which rows go into which pack, epoch by epoch.

    A pack is what one rank takes in one step: rows, shuffled by seed and epoch, until the next one
    would not fit. Packs do not depend on the number of ranks: rank r of W takes packs p+r of those
    that step over p..p+W-1, so every row is taken once per epoch whatever W was before.
    """

    def __init__(
        self, lengths: npt.NDArray[np.int64], batch_tokens: int, epochs: int, seed: int
    ) -> None:
        self._lengths = lengths
        self._limit = batch_tokens
        self._seed = seed
        self.epochs = epochs
        self._bounds_of: dict[int, npt.NDArray[np.int64]] = {}
        self._order_of: tuple[int, npt.NDArray[np.int64]] | None = None

    def order(self, epoch: int) -> npt.NDArray[np.int64]:
        """The rows in the order of this epoch."""
        if self._order_of is None or self._order_of[0] != epoch:
            random = np.random.default_rng([self._seed, epoch])
            self._order_of = epoch, random.permutation(len(self._lengths))
        return self._order_of[1]

    def _bounds(self, epoch: int) -> npt.NDArray[np.int64]:
        """First place of every pack in the order, and the end."""
        if epoch not in self._bounds_of:
            ends = np.cumsum(self._lengths[self.order(epoch)])
            bounds, before = [0], 0
            while bounds[-1] < len(ends):
                place = int(np.searchsorted(ends, before + self._limit, side="right"))
                place = max(place, bounds[-1] + 1)
                bounds.append(place)
                before = int(ends[place - 1])
            self._bounds_of[epoch] = np.array(bounds, np.int64)
        return self._bounds_of[epoch]

    def packs(self, epoch: int) -> int:
        """How many packs the epoch has."""
        return len(self._bounds(epoch)) - 1

    def rows(self, epoch: int, pack: int) -> list[int]:
        """Rows of a pack; none beyond the end of the epoch."""
        bounds = self._bounds(epoch)
        if pack >= len(bounds) - 1:
            return []
        return [int(r) for r in self.order(epoch)[bounds[pack] : bounds[pack + 1]]]

    def steps(self, epoch: int, world: int, done: int = 0) -> int:
        """Steps of `world` ranks from pack `done` to the end of the epoch."""
        return math.ceil((self.packs(epoch) - done) / world)

    def total_steps(self, place: Place, world: int, limit: int | None) -> int:
        """Steps of the whole training: those done, and those to come with `world` ranks."""
        total = place.step
        if place.epoch < self.epochs:
            total += self.steps(place.epoch, world, place.packs)
            total += sum(self.steps(e, world) for e in range(place.epoch + 1, self.epochs))
        return total if limit is None else min(total, max(limit, place.step))

    def after(self, place: Place, world: int) -> Place:
        """Where a step of `world` ranks leads to."""
        packs = place.packs + world
        if packs >= self.packs(place.epoch):
            return Place(place.epoch + 1, 0, place.step + 1)
        return Place(place.epoch, packs, place.step + 1)


def rate_factor(step: int, total: int, warmup_fraction: float) -> float:
    """Learning rate of a step (0-based) as a share of the peak: up in a line, down in a cosine."""
    warmup = math.ceil(total * warmup_fraction)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = (step - warmup) / max(1, total - warmup)
    return _FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
