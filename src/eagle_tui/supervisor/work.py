"""What is left of a dataset under its caps. Pure."""

from __future__ import annotations

from eagle_tui import eta
from eagle_tui.rundir.desired import Limits
from eagle_tui.supervisor.figures import DatasetFigures


def work_of(figures: DatasetFigures, lim: Limits) -> eta.Work:
    """What is left of a dataset under its caps."""
    left = max(0, figures.prompts - figures.done)
    if lim.skip:
        left = 0
    if lim.cap_samples is not None:
        left = min(left, max(0, lim.cap_samples - figures.done))
    tokens_left = None
    if lim.cap_tokens is not None:
        tokens_left = max(0, lim.cap_tokens - figures.tokens)
        left = left if tokens_left else 0
    return eta.Work(left, figures.lengths, tokens_left)
