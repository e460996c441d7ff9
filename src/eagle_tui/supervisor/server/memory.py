"""Whether a server that ended gave its GPU memory back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eagle_tui.protocol import GpuStatus

TOLERANCE = 512 << 20
"""Bytes more than before that are nobody's fault: contexts of drivers and of other programs."""
FRESH_S = 5.0
"""Figures that are older say nothing of what just ended."""


def in_use(gpus: Iterable[GpuStatus], wanted: Sequence[int]) -> dict[int, int] | None:
    """Bytes in use by GPU, of the GPUs that are `wanted` (empty: of all); None when the figures are
    not there or too old."""
    found: dict[int, int] = {}
    for gpu in gpus:
        if wanted and gpu.index not in wanted:
            continue
        if gpu.mem_used is None or gpu.age_s is None or gpu.age_s > FRESH_S:
            return None
        found[gpu.index] = gpu.mem_used
    return found or None


def still_held(before: Mapping[int, int], now: Mapping[int, int]) -> str:
    """Which GPUs hold more than before the launch, in words; empty when none does."""
    parts = [
        f"GPU {index} holds {(now[index] - used) / 2**30:.1f} GiB more than before the launch"
        for index, used in sorted(before.items())
        if index in now and now[index] - used > TOLERANCE
    ]
    return ", ".join(parts)
