"""What a backend gives for a batch, and how states become what is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..shards import TokenRow

STORED = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float8": torch.float8_e4m3fn,
    "float32": torch.float32,
}
_FLOAT8_MAX = 448.0
_LEAST_SCALE = 1e-30
"""Keeps a row of zeros finite."""


@dataclass(frozen=True)
class States:
    """The states of S rows laid end to end, N tokens in all, as they are to be stored, on the CPU.

    `ready` blocks until the copies from the device are there; nothing may be read before.
    """

    lengths: list[int]
    """[S]"""
    aux: Tensor
    """[N, 3*Ht]"""
    last: Tensor
    """[N, Ht]"""
    aux_scale: Tensor | None
    """float32 [N, 3], float8 only."""
    last_scale: Tensor | None
    """float32 [N, 1], float8 only."""
    bad: Tensor
    """uint8 [N]: 1 where a state is not finite, or too large for the stored type."""
    ready: Callable[[], None]


class Backend(Protocol):
    """A way to get the target's states."""

    @property
    def hidden_size(self) -> int:
        """Ht."""
        ...

    def states(self, rows: Sequence[TokenRow]) -> States:
        """The states of a batch of rows of like length."""
        ...

    def away(self) -> None:
        """Leave the device to others for a while."""
        ...

    def back(self) -> None:
        """Take the device again."""
        ...


def nothing() -> None:
    """For states that are on the CPU already."""


def pack(aux: Tensor, last: Tensor, lengths: list[int], dtype: str) -> States:
    """States of rows laid end to end ([N, 3*Ht] and [N, Ht], any device and floating type) in the
    type in which they are stored, still on their device."""
    low = pack_one(aux, 3, dtype)
    high = pack_one(last, 1, dtype)
    return States(
        lengths,
        aux=low.values,
        last=high.values,
        aux_scale=low.scale,
        last_scale=high.scale,
        bad=low.bad | high.bad,
        ready=nothing,
    )


@dataclass(frozen=True)
class Packed:
    """N states in the type in which they are stored."""

    values: Tensor
    """[N, W]"""
    scale: Tensor | None
    """float32 [N, groups], float8 only."""
    bad: Tensor
    """uint8 [N]: 1 where a state is not finite, or too large for the type."""


def pack_one(values: Tensor, groups: int, dtype: str) -> Packed:
    """Values [N, W] in the stored type; float8 has a scale for each W/groups of a row."""
    bad = (~_finite(values, dtype)).to(torch.uint8)
    if dtype == "float8":
        stored, scale = to_float8(values, groups)
        return Packed(stored, scale, bad)
    return Packed(values.to(STORED[dtype]), None, bad)


def _finite(values: Tensor, dtype: str) -> Tensor:
    """bool [N]: all of a row can be stored. The largest value tells, NaN included, in one pass."""
    largest = values.abs().amax(dim=1)
    limit = torch.finfo(torch.float16).max if dtype == "float16" else torch.inf
    return largest < limit if limit == torch.inf else largest <= limit


def to_float8(values: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """float8 (e4m3) [N, W] and float32 scales [N, groups], one for each W/groups values of a row.

    A third of a row has its own scale: the deeper layers' states are many times larger.
    """
    rows, width = values.shape
    parts = values.to(torch.float32).view(rows, groups, width // groups)
    scale = (parts.abs().amax(dim=2) / _FLOAT8_MAX).clamp_min(_LEAST_SCALE)
    stored = (parts / scale.unsqueeze(2)).view(rows, width).to(torch.float8_e4m3fn)
    return stored, scale
