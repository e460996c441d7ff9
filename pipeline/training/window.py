"""How many steps a window of bounded size is enough for. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .plan import Place, Plan


class WindowTooSmall(ValueError):
    """Not even one step fits."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"one step needs {needed} bytes")
        self.needed = needed


def window_end(
    plan: Plan,
    place: Place,
    *,
    world: int,
    steps: int,
    sizes: npt.NDArray[np.int64],
    limit: int,
) -> int:
    """The pack before which a window ends that begins at `place`: as many whole steps of `world`
    ranks as take at most `limit` bytes, `steps` at most, within the epoch. `sizes`: bytes of each
    row. WindowTooSmall when the first step alone takes more."""
    last = plan.packs(place.epoch)
    end, taken = place.packs, 0
    while end < last and steps > 0:
        after = min(end + world, last)
        rows = [row for pack in range(end, after) for row in plan.rows(place.epoch, pack)]
        taken += int(sizes[rows].sum())
        if taken > limit:
            break
        end, steps = after, steps - 1
    if end == place.packs and steps > 0 and end < last:
        raise WindowTooSmall(taken)
    return end


def usable(first: int, end: int, place: Place, *, world: int, last: int) -> bool:
    """Whether a window of the packs `first` … `end`-1 serves a training of `world` ranks that goes
    on at `place`: it ends where a step ends. `last`: packs of the epoch."""
    inside = first <= place.packs < end
    return inside and (end == last or (end - place.packs) % world == 0)
