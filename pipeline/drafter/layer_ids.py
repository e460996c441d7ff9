"""What SGLang makes of the layer ids in a drafter's config.json. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_FIRST_MUST_BE_ONE: Final = (
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "kimi_k2",
    "glm4_moe_lite",
)
"""Targets for which SGLang adds one to the ids only if the first of them is 1."""


def misread(model_type: object, ids: Sequence[int]) -> str:
    """Why SGLang would capture other layers than those of the ids (layers whose outputs are meant)
    for a target of this `model_type`; empty when it captures them."""
    if model_type in _FIRST_MUST_BE_ONE and ids[0] != 1:
        return (
            f"for {model_type} SGLang takes layer ids as inputs of layers unless the first one is "
            f"1, and it is {ids[0]}"
        )
    return ""
