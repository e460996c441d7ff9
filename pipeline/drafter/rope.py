"""Rotary position embedding with the scalings that SGLang and transformers agree on."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

SUPPORTED: Final = ("default", "linear", "llama3", "yarn")
_YARN_DROPPED: Final = ("mscale", "mscale_all_dim", "attention_factor", "attn_factor")
"""Keys that transformers and SGLang's plain YaRN read differently; without them they agree."""


def target_rope(config: dict[str, Any]) -> tuple[float, dict[str, Any] | None]:
    """Base and scaling of a target's config.json, in the spelling of transformers 4 or 5.

    A scaling that cannot be served the same everywhere (dynamic, longrope, multimodal sections)
    becomes None: the drafter is then trained and served with plain rotations of the same base.
    """
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if isinstance(found, dict) and found and all(isinstance(v, dict) for v in found.values()):
        # One for each type of layer. A drafter attends to everything, as the full ones do.
        found = found.get("full_attention") or next(iter(found.values()))
    scaling: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
    theta = float(scaling.pop("rope_theta", None) or config.get("rope_theta") or 10_000.0)
    kind = str(scaling.pop("rope_type", None) or scaling.pop("type", None) or "default")
    scaling.pop("type", None)
    scaling.pop("partial_rotary_factor", None)
    if kind == "default" or kind not in SUPPORTED:
        return theta, None
    kept = {key: value for key, value in scaling.items() if key not in _YARN_DROPPED}
    return theta, {"rope_type": kind, **kept}


def frequencies(
    head_dim: int, theta: float, scaling: dict[str, Any] | None, context: int
) -> tuple[Tensor, float]:
    """Inverse frequencies float32 [head_dim/2] and the factor on cosines and sines.

    `context` is max_position_embeddings, which YaRN takes where the scaling names no original
    length. ValueError for a scaling that is not supported. Formulas: transformers'
    modeling_rope_utils.
    """
    inverse = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    if scaling is None:
        return inverse.float(), 1.0
    kind = scaling.get("rope_type") or scaling.get("type")
    factor = float(scaling.get("factor", 1.0))
    match kind:
        case "default":
            return inverse.float(), 1.0
        case "linear":
            return (inverse / factor).float(), 1.0
        case "llama3":
            return _llama3(inverse, factor, scaling).float(), 1.0
        case "yarn":
            scale = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
            return _yarn(inverse, theta, factor, scaling, context).float(), scale
    raise ValueError(
        f"rope_scaling of type {kind!r} is not supported; known: {', '.join(SUPPORTED)}"
    )


def _llama3(inverse: Tensor, factor: float, scaling: dict[str, Any]) -> Tensor:
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    original = float(scaling["original_max_position_embeddings"])
    wavelength = 2 * math.pi / inverse
    smooth = ((original / wavelength - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * inverse / factor + smooth * inverse


def _yarn(
    inverse: Tensor, theta: float, factor: float, scaling: dict[str, Any], context: int
) -> Tensor:
    half = len(inverse)
    original = float(scaling.get("original_max_position_embeddings") or context)

    def dimension(rotations: float) -> float:
        return half * math.log(original / (rotations * 2 * math.pi)) / math.log(theta)

    low = dimension(float(scaling.get("beta_fast") or 32))
    high = dimension(float(scaling.get("beta_slow") or 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * half - 1)
    span = (high - low) or 0.001
    ramp = ((torch.arange(half, dtype=torch.float64) - low) / span).clamp(0, 1)
    return inverse / factor * ramp + inverse * (1 - ramp)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Half-split rotation of x [N, heads, d] by cos and sin [N, 1, d/2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
