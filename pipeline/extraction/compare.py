"""Are SGLang's states those of transformers? Asked of a few rows, where the target fits here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil
import torch
from torch import Tensor

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from ..shards import TokenRow
from ..targets import resolve_model
from ..worker import Failed
from .target import Capture, load_target

TOLERANCE = 0.03
"""Largest median error of a state, relative to its norm. Between two programs in bfloat16 it grows
with depth to 0.022 (SGLang 0.5.23, 30 layers); the layer beside it differs by 0.2 and more."""
_FLOAT32_SHARE = 0.4
"""Of the memory that is free, for the weights in float32."""


def compare_with_transformers(
    config: RunConfig,
    run: RunDir,
    layers: tuple[int, int, int],
    rows: Sequence[tuple[TokenRow, Tensor]],
) -> str:
    """Compare the layers' states [T, 3*Ht] of some rows with transformers on this CPU; gives what
    came of it in a sentence. Failed when they differ by more than TOLERANCE."""
    place = Path(resolve_model(config, run))
    stored = sum(path.stat().st_size for path in place.glob("*.safetensors"))
    if not stored or 2 * stored > _FLOAT32_SHARE * psutil.virtual_memory().available:
        return "the target is too large to compare its states with those of transformers here"
    model = load_target(config, run, torch.device("cpu"))
    capture = Capture(model, layers, "float32")
    errors: list[Tensor] = []
    for row, found in rows:
        wanted = capture.states([row]).aux.view(len(found), 3, -1)
        off = (found.view(len(found), 3, -1) - wanted).norm(dim=2) / wanted.norm(dim=2)
        errors.append(off)
    median = torch.cat(errors).median(dim=0).values.tolist()
    told = ", ".join(f"{value:.4f}" for value in median)
    text = (
        f"SGLang's states of layers {', '.join(map(str, layers))} differ from transformers' by "
        f"{told} (median of the tokens of {len(rows)} rows, limit {TOLERANCE})"
    )
    if max(median) > TOLERANCE:
        raise Failed(
            f"{text}. These are other layers, or another model: look at the server's flags, and "
            "whether this target numbers its layers otherwise."
        )
    return text
