"""Held-out prompts: those of the validation rows, which no training step has seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from eagle_tui.rundir.paths import RunDir

from .. import shards
from ..shards import ShardError
from ..worker import Refused


@dataclass(frozen=True)
class Prompt:
    """The tokens before the first answer of a row."""

    id: str
    dataset: str
    ids: tuple[int, ...]


def held_out(run: RunDir, each: int, room: int) -> list[Prompt]:
    """At most `each` prompts of every dataset, in the order of the shards, none twice. Prompts of
    more than `room` tokens are left out. Refused when there are none."""
    try:
        paths = shards.find_shards(run, "val")
    except ShardError as error:
        raise Refused(str(error)) from error
    found: list[Prompt] = []
    seen: set[tuple[int, ...]] = set()
    count: Counter[str] = Counter()
    too_long = 0
    for path in paths:
        shard = shards.open_shard(path)
        for entry, row in zip(shard.index(), shard.rows(), strict=True):
            dataset = str(entry["dataset"])
            supervised = np.flatnonzero(row.mask)
            if count[dataset] >= each or not len(supervised) or supervised[0] == 0:
                continue
            ids = tuple(int(i) for i in row.ids[: supervised[0]])
            if len(ids) > room:
                too_long += 1
            elif ids not in seen:
                seen.add(ids)
                count[dataset] += 1
                found.append(Prompt(str(entry["id"]), dataset, ids))
    if not found:
        why = f"all {too_long} of them are longer than {room} tokens" if too_long else "none there"
        raise Refused(
            f"There are no held-out prompts ({why}). Set merge.val_fraction above 0 in run.toml, "
            "or bench.max_new_tokens lower, and run the merge phase again."
        )
    return found
