"""Arithmetic of a training step, for the model FLOP/s utilisation."""

from __future__ import annotations

from typing import Final

import torch

from ..drafter.config import DrafterConfig

_PEAK_BF16: Final = {
    # Dense bfloat16 FLOP/s from the makers' data sheets, by a part of the device's name.
    "B200": 2.25e15,
    "H200": 0.989e15,
    "H100 PCIe": 0.756e15,
    "H100": 0.989e15,
    "H20": 0.148e15,
    "A100": 0.312e15,
    "A800": 0.312e15,
    "L40S": 0.362e15,
    "L4": 0.121e15,
    "A10": 0.125e15,
    "RTX PRO 6000": 0.503e15,
    "RTX 5090": 0.209e15,
    "RTX 4090": 0.165e15,
}


def peak_flops(device: torch.device) -> float | None:
    """What the device can do in bfloat16; None where it is not known."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((flops for part, flops in _PEAK_BF16.items() if part in name), None)


def step_flops(
    config: DrafterConfig, lengths: list[int], supervised: int, steps: int, target_rows: int
) -> float:
    """Multiplications and additions of forward and backward passes over documents of these lengths.

    Only what the objective asks for is counted: recomputation, if any, is not. `supervised` rows
    pass the head in each step and the target's head (`target_rows` = V + Vd, forward only) once.
    """
    width, tokens = config.hidden_size, sum(lengths)
    q = config.num_attention_heads * config.head_dim
    kv = config.num_key_value_heads * config.head_dim
    once = 3 * width * width + width * (q + 2 * kv)  # fc, and the embedding's projection
    each = width * (q + 2 * kv) + q * width + 3 * width * config.intermediate_size
    attention = sum(n * n for n in lengths) * q  # causal: half of 2 products, 2 operations each
    forward = 2.0 * tokens * (once + steps * each) + 2.0 * steps * attention
    head = 2.0 * supervised * width * config.draft_vocab_size * steps
    return 3 * (forward + head) + 2.0 * supervised * width * target_rows
