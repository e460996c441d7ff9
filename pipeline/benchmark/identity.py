"""Whether greedy output with a drafter is that without it. Pure.

Verification may pass several tokens through the model at once where plain decoding passes one, and
kernels round otherwise for other shapes: where the target's two best tokens are as good as equal,
either may come. That is a tie and no fault; and the target alone parts from itself in the same way
when more requests share a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """Two greedy answers to one prompt."""

    name: str
    """For the example: which prompt."""
    base: Sequence[int]
    other: Sequence[int]
    gaps: Sequence[float]
    """At each token of `base`: by how many logits the target's best token is ahead of its second.
    Empty: not known."""


@dataclass(frozen=True)
class Identity:
    """Greedy answers with the drafter against those without."""

    compared: int = 0
    equal: int = 0
    ties: int = 0
    example: str = ""
    """One that parts where there is no tie."""

    @property
    def holds(self) -> bool:
        """All are equal, but for those that part at a tie."""
        return self.equal + self.ties == self.compared

    def to_json(self) -> dict[str, Any]:
        return {
            "compared": self.compared,
            "equal": self.equal,
            "ties": self.ties,
            "example": self.example,
        }


def parting(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place at which they differ, an end included; None: they are equal."""
    pairs = enumerate(zip(one, other, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    return None if place == len(one) == len(other) else place


def compare(pairs: Iterable[Pair], tie_gap: float) -> Identity:
    """Count the answers that are equal, and those that part at a gap of at most `tie_gap`."""
    compared, equal, ties, example = 0, 0, 0, ""
    for pair in pairs:
        compared += 1
        place = parting(pair.base, pair.other)
        if place is None:
            equal += 1
            continue
        gap = pair.gaps[place] if place < len(pair.gaps) else None
        if gap is not None and gap <= tie_gap:
            ties += 1
        elif not example:
            told = "" if gap is None else f", gap {gap:.3g}"
            example = f"{pair.name}: from token {place}{told}"
    return Identity(compared, equal, ties, example)
