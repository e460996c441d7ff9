"""Decode attention that does not pad every row to the longest one.

Reasoning output has a heavy tail: one request of a thousand tokens beside thirty short ones would
make every step read thirty times a thousand positions, nearly all of them masked. `SlotCache`
therefore may name a row from which on all rows are short; the rows before and after it are
attended in two calls. Where that would save little, or in a prefill, this is plain SDPA.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

#: Name under which transformers finds it (``attn_implementation``).
NAME = "eagle_tui_slots"


def slot_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer; ``slots`` among the keyword arguments is the `SlotCache` in use.

    ``query`` is ``[n, heads, t, head_dim]``, ``key`` and ``value`` ``[n, kv_heads, span,
    head_dim]``, the mask ``[n or 1, 1, t, span]`` additive.
    """
    slots = kwargs.pop("slots", None)
    split = None if slots is None else slots.split
    if split is None or attention_mask is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return output, None
    rows, span = split
    long, _ = sdpa_attention_forward(
        module, query[:rows], key[:rows], value[:rows], attention_mask[:rows], **kwargs
    )
    short, _ = sdpa_attention_forward(
        module,
        query[rows:],
        key[rows:, :, :span],
        value[rows:, :, :span],
        attention_mask[rows:, ..., :span],
        **kwargs,
    )
    return torch.cat((long, short)), None


AttentionInterface.register(NAME, slot_attention)
