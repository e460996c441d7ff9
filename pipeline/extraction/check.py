"""Do the stored states mean what they should? Asked of a few rows while the work begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..hidden import restore
from ..shards import TokenRow
from .states import States
from .target import head_logits

LEAST_AGREEMENT = 0.99
"""eagle3.md B.5 of the published recipes: below it the states are of another layer, or normed once
too often or too seldom."""
CHECK_ROWS = 8


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
        ids = torch.from_numpy(row.ids).long()
        own = model(input_ids=ids.unsqueeze(0).to(device), use_cache=False).logits[0]
        stored = head_logits(model, unpacked(states, place)[1]).argmax(-1).cpu()
        where = torch.from_numpy(row.mask[1:]).bool()
        greedy = own.argmax(-1).cpu()[:-1][where]
        found.rows += 1
        found.positions += len(greedy)
        found.equal += int((stored[:-1][where] == greedy).sum())
        found.on_policy += int((ids[1:][where] == greedy).sum())
    return found


def _chosen(rows: Sequence[TokenRow]) -> list[int]:
    """Rows spread over the batch."""
    step = max(1, len(rows) // CHECK_ROWS)
    return list(range(0, len(rows), step))[:CHECK_ROWS]
