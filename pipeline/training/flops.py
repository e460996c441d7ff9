"""Arithmetic of a training step, for the model FLOP/s utilisation."""

from __future__ import annotations

import re
from typing import Final

import torch

from ..drafter.attention import Documents
from ..drafter.config import DrafterConfig

_PEAK_BF16: Final = {
    # Dense bfloat16 FLOP/s from the makers' data sheets, by words of the device's name.
    "GB200": 2.5e15,
    "B200": 2.25e15,
    "GH200": 0.989e15,
    "H200": 0.989e15,
    "H100 PCIe": 0.756e15,
    "H100": 0.989e15,
    "H20": 0.148e15,
    "A100": 0.312e15,
    "A800": 0.312e15,
    "L40S": 0.362e15,
    "L40": 0.181e15,
    "L4": 0.121e15,
    "A10": 0.125e15,
    "A10G": 0.07e15,
    "RTX PRO 6000": 0.503e15,
    "RTX 5090": 0.209e15,
    "RTX 4090": 0.165e15,
}


def peak_flops(device: torch.device) -> float | None:
    """What the device can do in bfloat16; None where it is not known."""
    return None if device.type != "cuda" else peak_of(torch.cuda.get_device_name(device))


def peak_of(name: str) -> float | None:
    """What a device of this name can do in bfloat16: `NVIDIA A100-SXM4-80GB`."""
    found = (flops for part, flops in _PEAK_BF16.items() if re.search(rf"\b{part}\b", name))
    return next(found, None)


def step_flops(
    config: DrafterConfig, docs: Documents, supervised: int, steps: int, target_rows: int
) -> float:
    """Multiplications and additions of forward and backward passes over these documents.

    Only what the objective asks for is counted: later steps of the documents' tails, no
    recomputation. `supervised` rows pass the head in each step, and the target's head
    (`target_rows` = V + Vd, forward only) once.
    """
    width, tokens, tail = config.hidden_size, docs.bounds[-1], docs.tail_bounds[-1]
    q = config.num_attention_heads * config.head_dim
    kv = config.num_key_value_heads * config.head_dim
    everywhere = 3 * width * width + width * (q + 2 * kv) + width * 2 * kv
    first = width * q + q * width + 3 * width * config.intermediate_size
    later = first + width * 2 * kv
    # Query and key pairs of the causal block: those before the tail, and half of the tail's own.
    pairs: float = sum(
        (c.stop - c.start) * ((r.stop - r.start) - 0.5 * (c.stop - c.start))
        for r, c in docs.spans()
    )
    linear = tokens * everywhere + tail * (first + (steps - 1) * later)
    forward = 2.0 * (linear + 2 * q * pairs * steps)
    head = 2.0 * supervised * width * config.draft_vocab_size * steps
    return 3 * (forward + head) + 2.0 * supervised * width * target_rows
