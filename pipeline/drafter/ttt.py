"""The training-time test: every row drafts `steps` tokens ahead, each step fed with the state that
the step before it produced (C.1 of the EAGLE-3 objective: same row, tokens shifted once more,
position one further, keys of later steps seen by their own row only)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .attention import Documents, Kernel, attend
from .module import Drafter


@dataclass(frozen=True)
class Rows:
    """N positions of documents laid end to end, on one device."""

    ids: Tensor
    """int64 [N]"""
    aux: Tensor
    """[N, 3*Ht]"""
    positions: Tensor
    """int64 [N], from 0 in every document."""
    docs: Documents


def shifted(rows: Tensor, by: int) -> Tensor:
    """Row t becomes row t+by; zeros at the end. What crosses into the next document carries no
    weight in the loss and is seen by no row that does."""
    return torch.cat((rows[by:], rows.new_zeros(min(by, len(rows)), *rows.shape[1:])))


def draft_states(
    drafter: Drafter,
    rows: Rows,
    steps: int,
    *,
    kernel: Kernel | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """States y of every step, [steps, N, H], before the final norm. Step j of row t predicts token
    t+2+j; its target is the target model's distribution at t+1+j. `dtype` of the computation:
    that of the weights unless given."""
    dtype = dtype or drafter.fc.weight.dtype
    layer, attention = drafter.midlayer, drafter.midlayer.self_attn
    to_embedding, to_state = attention.weights(dtype)
    embedded = layer.input_layernorm(drafter.embedding[rows.ids].to(dtype))
    projected = torch.nn.functional.linear(embedded, to_embedding)
    hidden = drafter.fc(rows.aux.to(dtype))
    keys: list[Tensor] = []
    values: list[Tensor] = []
    states: list[Tensor] = []
    for step in range(steps):
        joined = shifted(projected, 1 + step) + torch.nn.functional.linear(
            layer.hidden_norm(hidden), to_state
        )
        rotation = drafter.rotation(rows.positions + step, joined.dtype)
        q, k, v = attention.split(joined, *rotation)
        keys.append(k)
        values.append(v)
        attended = attend(q, keys, values, rows.docs, attention.scale, kernel)
        hidden = layer.after_attention(hidden, attended)
        states.append(hidden)
    return torch.stack(states)
