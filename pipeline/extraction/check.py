"""Do the stored states mean what they should? Asked of a few rows while the work begins."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..hidden import restore
from ..shards import TokenRow
from .states import States
from .target import head_logits

LEAST_AGREEMENT = 0.99
"""Below it the states are of another layer, or normed once too often or too seldom."""
_LEAST_AGREEMENT_LOSSY = 0.9
"""The same for float8, whose rounding moves near ties."""
CHECK_ROWS = 8
CHECK_TOKENS = 256
"""Response positions of a row that are looked at: the logits of a whole long row can be larger than
the model."""


@dataclass
class Agreement:
    """Response positions that were compared, and what came of it."""

    rows: int = 0
    positions: int = 0
    equal: int = 0
    """lm_head(stored last) has its largest logit where the target itself has it."""
    on_policy: int = 0
    """The next token of the row is the target's own greedy choice."""

    @property
    def share(self) -> float:
        """Share of equal positions; 1 when there were none."""
        return self.equal / self.positions if self.positions else 1.0

    def sentence(self) -> str:
        """For the operator."""
        follow = self.on_policy / self.positions if self.positions else 0.0
        return (
            f"lm_head of the stored final states gives the target's own next token at "
            f"{self.share:.2%} of {self.positions:,} response positions of {self.rows} rows; the "
            f"responses themselves follow its greedy choice at {follow:.1%}"
        )


def least_agreement(dtype: str) -> float:
    """Share of positions that must be equal when states are stored in this type."""
    return _LEAST_AGREEMENT_LOSSY if dtype == "float8" else LEAST_AGREEMENT


def unpacked(states: States, place: int) -> tuple[Tensor, Tensor]:
    """The stored (aux [T, 3*Ht], last [T, Ht]) of a row of a batch, scales undone."""
    start = sum(states.lengths[:place])
    part = slice(start, start + states.lengths[place])
    aux, last = states.aux[part], states.last[part]
    if states.aux_scale is not None and states.last_scale is not None:
        return restore(aux, states.aux_scale[part]), restore(last, states.last_scale[part])
    return aux, last


@torch.inference_mode()
def compare(model: Any, rows: Sequence[TokenRow], states: States) -> Agreement:
    """Compare the stored final states of some rows with the whole model's own logits."""
    found = Agreement()
    device = model.get_input_embeddings().weight.device
    for place in _chosen(rows):
        row = rows[place]
        supervised = np.flatnonzero(row.mask[1:])
        begin = sum(states.lengths[:place])
        if not len(supervised) or bool(states.bad[begin : begin + len(row.ids)].any()):
            continue  # nothing to compare, or a row that will be put away
        # Position t predicts token t+1. What comes after `end` has no part in states before it.
        start = int(supervised[0])
        end = min(len(row.ids) - 1, start + CHECK_TOKENS)
        ids = torch.from_numpy(row.ids).long()
        own = _logits(model, ids[:end].unsqueeze(0).to(device), keep=end - start)
        stored = head_logits(model, unpacked(states, place)[1][start:end])
        where = torch.from_numpy(row.mask[start + 1 : end + 1]).bool()
        greedy = own.argmax(-1).cpu()[where]
        found.rows += 1
        found.positions += len(greedy)
        found.equal += int((stored.argmax(-1).cpu()[where] == greedy).sum())
        found.on_policy += int((ids[start + 1 : end + 1][where] == greedy).sum())
    return found


def _logits(model: Any, ids: Tensor, keep: int) -> Tensor:
    """The whole model's logits [keep, V] of the last tokens of ids [1, T]."""
    known = inspect.signature(model.forward).parameters
    some = {"logits_to_keep": keep} if "logits_to_keep" in known else {}
    logits: Tensor = model(input_ids=ids, use_cache=False, **some).logits
    return logits[0, -keep:]


def _chosen(rows: Sequence[TokenRow]) -> list[int]:
    """Rows spread over the batch."""
    step = max(1, len(rows) // CHECK_ROWS)
    return list(range(0, len(rows), step))[:CHECK_ROWS]
