"""How good a drafter is on text of the target, per step and as an accept length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass
class Tally:
    """Sums over target positions; adds up over batches, rows and ranks."""

    steps: int
    valid: npt.NDArray[np.float64] = field(init=False)
    hits: npt.NDArray[np.float64] = field(init=False)
    joint: npt.NDArray[np.float64] = field(init=False)
    """Anchors at which this step and all before it hit."""
    anchors: npt.NDArray[np.float64] = field(init=False)
    """Anchors at which this step and all before it could be judged."""
    alpha: npt.NDArray[np.float64] = field(init=False)
    tokens: float = 0.0
    rounds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("valid", "hits", "joint", "anchors", "alpha"):
            setattr(self, name, np.zeros(self.steps))

    def add(self, other: Tally) -> None:
        """Add another's sums."""
        self.load(self.flat() + other.flat())

    def flat(self) -> npt.NDArray[np.float64]:
        """All sums in one array, to be added over ranks."""
        parts = (self.valid, self.hits, self.joint, self.anchors, self.alpha)
        return np.concatenate((*parts, [self.tokens, self.rounds]))

    def load(self, flat: npt.NDArray[np.float64]) -> None:
        """The inverse of `flat`."""
        parts = flat[:-2].reshape(5, self.steps)
        self.valid, self.hits, self.joint, self.anchors, self.alpha = (p.copy() for p in parts)
        self.tokens, self.rounds = float(flat[-2]), float(flat[-1])

    @property
    def accept(self) -> float | None:
        """Simulated accept length, bonus token included; None when nothing was walked."""
        return self.tokens / self.rounds if self.rounds else None

    def to_json(self) -> dict[str, Any]:
        """Figures per step, rounded; null where nothing was judged."""
        return {
            "accept": _share(self.tokens, self.rounds),
            "rounds": int(self.rounds),
            "acc": _shares(self.hits, self.valid),
            "joint": _shares(self.joint, self.anchors),
            "alpha": _shares(self.alpha, self.valid),
        }


def tally_row(
    hits: npt.NDArray[np.bool_],
    alpha: npt.NDArray[np.float32],
    valid: npt.NDArray[np.bool_],
    positions: npt.NDArray[np.int64],
    length: int,
    walk_steps: int,
) -> Tally:
    """Figures of one document of `length` tokens.

    hits, alpha, valid [steps, n] of its n supervised positions, which stand in `positions`,
    ascending. The accept length is that of `walk_steps` draft tokens a round.
    """
    steps = len(hits)
    tally = Tally(steps)
    tally.valid = valid.sum(1).astype(np.float64)
    tally.hits = (hits & valid).sum(1).astype(np.float64)
    tally.alpha = np.where(valid, alpha, 0).sum(1).astype(np.float64)
    at = np.zeros((steps, length + steps), np.bool_)
    known = np.zeros((steps, length + steps), np.bool_)
    at[:, positions], known[:, positions] = hits & valid, valid
    # Row t is right at step j where the target at t+1+j is hit: bring anchors into one column.
    right = np.stack([at[j, j : j + length] for j in range(steps)])
    judged = np.stack([known[j, j : j + length] for j in range(steps)])
    tally.joint = np.logical_and.accumulate(right).sum(1).astype(np.float64)
    tally.anchors = np.logical_and.accumulate(judged).sum(1).astype(np.float64)
    leading = np.logical_and.accumulate(right[:walk_steps]).sum(0)
    for first, last in spans(positions):
        tokens, rounds = walk(leading, first, last)
        tally.tokens += tokens
        tally.rounds += rounds
    return tally


def walk(leading: npt.NDArray[np.int64], first: int, last: int) -> tuple[int, int]:
    """Tokens and rounds of speculative decoding of an answer that stands in [first, last].

    `leading[s]` is the number of drafts that are right when x_s is the newest token, which is the
    anchor t = s-1. The first token comes with the prompt; each round gives its hits and one bonus
    token, and the answer ends with its last token.
    """
    newest, tokens, rounds = first, 0, 0
    while newest < last:
        gained = min(int(leading[newest]) + 1, last - newest)
        tokens += gained
        rounds += 1
        newest += gained
    return tokens, rounds


def spans(positions: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive positions."""
    if len(positions) == 0:
        return
    breaks = np.flatnonzero(np.diff(positions) != 1)
    for a, b in zip([0, *(breaks + 1)], [*breaks, len(positions) - 1], strict=True):
        yield int(positions[a]), int(positions[b])


def _share(part: float, whole: float) -> float | None:
    return round(float(part / whole), 4) if whole else None


def _shares(parts: npt.NDArray[np.float64], wholes: npt.NDArray[np.float64]) -> list[float | None]:
    return [_share(p, w) for p, w in zip(parts, wholes, strict=True)]
