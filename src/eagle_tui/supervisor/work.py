"""What is left of the datasets under their caps and those over all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eagle_tui import eta
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.desired import Desired, Limits, TotalCaps, limits, ordered, total_caps
from eagle_tui.supervisor.dataset_figures import DatasetFigures


def work_of(figures: DatasetFigures, lim: Limits) -> eta.Work:
    """What is left of a dataset under its own caps."""
    left = max(0, figures.prompts - figures.done)
    if lim.skip:
        left = 0
    if lim.cap_samples is not None:
        left = min(left, max(0, lim.cap_samples - figures.stored))
    tokens_left = None
    if lim.cap_tokens is not None:
        tokens_left = max(0, lim.cap_tokens - figures.tokens)
        left = left if tokens_left else 0
    longest = lim.max_new_tokens
    known = figures.expected(longest)
    return eta.Work(left, figures.lengths, tokens_left, figures.begun, longest, known)


def room_of(datasets: Iterable[DatasetFigures], caps: TotalCaps) -> eta.Room:
    """What the caps over all datasets leave to them."""
    have = list(datasets)
    tokens, stored = sum(f.tokens for f in have), sum(f.stored for f in have)
    return eta.Room(
        tokens=None if caps.tokens is None else max(0, caps.tokens - tokens),
        prompts=None if caps.samples is None else max(0, caps.samples - stored),
    )


def reached(room: eta.Room) -> bool:
    """No dataset gets more: a cap over all of them is reached."""
    return room.tokens == 0 or room.prompts == 0


def plan(
    config: RunConfig, desired: Desired, datasets: Mapping[str, DatasetFigures]
) -> dict[str, eta.Share]:
    """What each dataset of prompts is expected to get still, in the order in which they are taken
    and under every cap that holds."""
    sections = [s for s in ordered(config, desired) if s.kind == "prompts"]
    figures = {s.name: datasets.get(s.name) or DatasetFigures() for s in sections}
    works = [work_of(figures[s.name], limits(config, desired, s)) for s in sections]
    room = room_of(figures.values(), total_caps(config, desired))
    return dict(zip(figures, eta.plan(works, room), strict=True))
