"""All families by name, and the split that keeps training, evaluation and demo prompts apart."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from . import arith, chat, count, sort, strings, tools
from .base import Instance, Split


@dataclass(frozen=True, slots=True)
class _Family:
    make: Callable[[random.Random], Instance]
    check: Callable[[Instance, str], bool]


_CATALOG: Final[dict[str, _Family]] = {
    module.FAMILY: _Family(module.make, module.check)
    for module in (arith, sort, count, strings, tools, chat)
}

_PATIENCE: Final = 10_000  # repeats in a row before a family counts as exhausted

FAMILIES: Final[tuple[str, ...]] = tuple(_CATALOG)
"""Names of the task families; each makes one dataset of the demo."""

_SHARES: Final[dict[Split, range]] = {
    "train": range(0, 80),
    "eval": range(80, 90),
    "demo": range(90, 100),
}


def split_of(instance: Instance) -> Split:
    """The split that an instance belongs to, by the hash of its prompt: no prompt is ever in two
    splits."""
    slot = int(instance.key, 16) % 100
    return next(split for split, slots in _SHARES.items() if slot in slots)


def check(instance: Instance, content: str) -> bool:
    """Whether ``content`` (the text after the thought) solves the instance."""
    return _CATALOG[instance.family].check(instance, content)


def generate(family: str, seed: int, split: Split, *, distinct: bool = True) -> Iterator[Instance]:
    """An endless stream of instances of one split; the same arguments give the same stream.

    With ``distinct`` no prompt comes twice. ValueError for an unknown family, and when a family has
    no more different prompts.
    """
    if family not in _CATALOG:
        raise ValueError(
            f"There is no task family {family!r}. Choose one of: {', '.join(FAMILIES)}."
        )
    return _stream(_CATALOG[family], random.Random(f"{family}/{split}/{seed}"), split, distinct)


def _stream(
    family: _Family, rng: random.Random, split: Split, distinct: bool
) -> Iterator[Instance]:
    seen: set[str] = set()
    repeats = 0
    while True:
        instance = family.make(rng)
        if split_of(instance) != split:
            continue
        if not distinct:
            yield instance
        elif instance.key not in seen:
            seen.add(instance.key)
            repeats = 0
            yield instance
        elif (repeats := repeats + 1) > _PATIENCE:
            raise ValueError(
                f"The family {instance.family!r} has no more than {len(seen)} different prompts in "
                f"the split {split!r}. Ask for fewer."
            )
