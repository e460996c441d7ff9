"""The training-time test: every row drafts `steps` tokens ahead, each step fed with the state that
the step before it produced (C.1 of the EAGLE-3 objective: same row, tokens shifted once more,
position one further, keys of later steps seen by their own row only)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
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
    """What crosses from one into the next carries no weight in the loss, and no row that does sees
    it."""


def draft_states(
    drafter: Drafter,
    rows: Rows,
    steps: int,
    *,
    kernel: Kernel | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """States y of every step of the A rows of the tails, [steps, A, H], before the final norm. Step
    j of row t predicts token t+2+j; its target is the target model's distribution at t+1+j. `dtype`
    of the computation: that of the weights unless given."""
    dtype = dtype or drafter.fc.weight.dtype
    layer, attention = drafter.midlayer, drafter.midlayer.self_attn
    to_embedding, to_state = attention.weights(dtype)
    queries = attention.heads * attention.head_dim
    embedded = layer.input_layernorm(drafter.embedding[rows.ids].to(dtype))
    projected = F.linear(embedded, to_embedding)
    # Rows of tokens that are asked for beyond the last one read zeros.
    padded = F.pad(projected, (0, 0, 0, steps))
    asking = rows.docs.tail_rows
    everywhere = drafter.fc(rows.aux.to(dtype))
    normed = layer.hidden_norm(everywhere)

    rotation = drafter.rotation(rows.positions, dtype)
    joined = padded[1 : 1 + len(rows.ids), queries:] + F.linear(normed, to_state[queries:])
    key, value = attention.keys_values(joined, *rotation)
    keys, values = [key], [value]

    hidden, normed = everywhere[asking], normed[asking]
    ahead = torch.arange(steps, device=asking.device)[:, None]
    positions = (rows.positions[asking] + ahead).flatten()
    turned = drafter.rotation(positions, dtype)
    cos, sin = (r.view(steps, len(asking), *r.shape[1:]) for r in turned)
    states: list[Tensor] = []
    for step in range(steps):
        rotation = cos[step], sin[step]
        wanted = queries if step == 0 else len(to_state)
        joined = padded[asking + 1 + step, :wanted] + F.linear(normed, to_state[:wanted])
        if step:
            key, value = attention.keys_values(joined[:, queries:], *rotation)
            keys.append(key)
            values.append(value)
        q = attention.queries(joined[:, :queries], *rotation)
        attended = attend(q, keys, values, rows.docs, attention.scale, kernel)
        hidden = layer.after_attention(hidden, attended)
        states.append(hidden)
        normed = layer.hidden_norm(hidden)
    return torch.stack(states)
