"""Figures of a drafter on rows it never learned from, for every dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from ..drafter.loss import TargetHead, make_targets
from ..drafter.metrics import Tally, tally_row
from .data import Table
from .ranks import Ranks

ROWS_PER_DATASET: Final = 24
"""Rows of each dataset that are judged; more would only cost time."""


@dataclass(frozen=True)
class Verdict:
    """What a validation found."""

    overall: Tally
    datasets: dict[str, Tally]

    def to_json(self) -> dict[str, Any]:
        """Figures, rounded; the weakest dataset first."""
        return {
            **self.overall.to_json(),
            "accept_by_dataset": {
                name: tally.to_json()["accept"] for name, tally in self._weakest_first()
            },
        }

    def _weakest_first(self) -> list[tuple[str, Tally]]:
        return sorted(self.datasets.items(), key=lambda item: (item[1].accept or 0.0, item[0]))

    def sentence(self) -> str:
        """For the operator."""
        if self.overall.accept is None:
            return "nothing to judge: no held-out answer is long enough"
        parts = [
            f"{name} {tally.accept:.2f}"
            for name, tally in self._weakest_first()
            if tally.accept is not None
        ]
        return f"accept length {self.overall.accept:.2f} ({', '.join(parts)})"


def chosen_rows(table: Table, per_dataset: int = ROWS_PER_DATASET) -> list[int]:
    """The rows to judge: the first of each dataset, always the same."""
    taken: dict[str, int] = {}
    rows = []
    for number, name in enumerate(table.datasets):
        if taken.get(name, 0) < per_dataset:
            taken[name] = taken.get(name, 0) + 1
            rows.append(number)
    return rows


def packs_of(table: Table, rows: list[int], batch_tokens: int) -> list[list[int]]:
    """Rows in packs of at most `batch_tokens`, one at least in each."""
    packs: list[list[int]] = []
    room = 0
    for row in rows:
        if not packs or table.lengths[row] > room:
            packs.append([])
            room = batch_tokens
        packs[-1].append(row)
        room -= int(table.lengths[row])
    return packs


@torch.no_grad()
def validate(
    model: nn.Module,
    head: TargetHead,
    table: Table,
    ranks: Ranks,
    *,
    steps: int,
    walk_steps: int,
    batch_tokens: int,
) -> Verdict:
    """Judge the held-out rows; the ranks share them. `model` is called as in training."""
    names = sorted(set(table.datasets))
    tallies = {name: Tally(steps) for name in names}
    packs = packs_of(table, chosen_rows(table), batch_tokens)
    rounds = -(-len(packs) // ranks.world)
    for turn in range(rounds):
        place = turn * ranks.world + ranks.rank
        batch = table.batch(packs[place] if place < len(packs) else []).to(ranks.device)
        targets = make_targets(head, batch.last, batch.anchors, batch.depths, steps)
        weights = torch.zeros(steps, len(batch.depths), device=ranks.device)
        _, hits, alpha = model(batch.rows, targets, weights)
        found = [t.cpu().numpy() for t in (hits, alpha, targets.valid)]
        depths = batch.depths.cpu().numpy()
        end = 0
        for row, count in zip(batch.numbers, batch.supervised, strict=False):
            part = slice(end, end := end + count)
            if not count:
                continue  # a row without states
            hit, share, valid = (array[:, part] for array in found)
            length = int(table.lengths[row])
            tally = tally_row(hit, share, valid, depths[part], length, walk_steps)
            tallies[table.datasets[row]].add(tally)
    flat = np.concatenate([tallies[name].flat() for name in names]) if names else np.zeros(0)
    summed = ranks.sum_array(flat).reshape(len(names), -1)
    overall = Tally(steps)
    for name, sums in zip(names, summed, strict=True):
        tallies[name].load(sums)
        overall.add(tallies[name])
    return Verdict(overall, tallies)
