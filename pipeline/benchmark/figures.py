"""Adding up what a benchmark has measured, and comparing with and without the drafter. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

_DRAWS = 2000
_LOW, _HIGH = 2.5, 97.5
"""Percentiles of a 95 % interval."""


@dataclass
class Accept:
    """Rounds of verification of some answers."""

    tokens: int = 0
    """Tokens that came out of the rounds, bonus tokens included."""
    rounds: int = 0
    taken: dict[int, int] = field(default_factory=dict)
    """Accepted drafts → rounds."""
    proposed: dict[int, int] = field(default_factory=dict)
    """Place in the chain, from 0 → rounds in which a draft stood there that could be accepted."""

    def add(self, tokens: int, accepted: Sequence[int], proposed: Sequence[int]) -> None:
        """Add an answer: tokens that its rounds gave, and of each round the drafts accepted and
        those that were to be had."""
        self.tokens += tokens
        self.rounds += len(accepted)
        for count, of in zip(accepted, proposed, strict=True):
            self.taken[count] = self.taken.get(count, 0) + 1
            for place in range(min(of, count + 1)):
                self.proposed[place] = self.proposed.get(place, 0) + 1

    def add_counts(self, tokens: int, rounds: int, taken: Sequence[int], steps: int) -> None:
        """Add an answer of which a server tells only sums: `taken[i]` rounds accepted i drafts."""
        self.tokens += tokens
        self.rounds += rounds
        for count, times in enumerate(taken):
            if not times:
                continue
            self.taken[count] = self.taken.get(count, 0) + times
            for place in range(min(steps, count + 1)):
                self.proposed[place] = self.proposed.get(place, 0) + times

    def merge(self, other: Accept) -> None:
        """Add another's rounds."""
        self.tokens += other.tokens
        self.rounds += other.rounds
        for mine, theirs in ((self.taken, other.taken), (self.proposed, other.proposed)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count

    @property
    def length(self) -> float | None:
        """Accept length: tokens a round, bonus token included; None without rounds."""
        return self.tokens / self.rounds if self.rounds else None

    def conditional(self, steps: int) -> list[float | None]:
        """Of each place in the chain: how often its draft was accepted where all before it were."""
        out: list[float | None] = []
        for place in range(steps):
            reached = self.proposed.get(place, 0)
            passed = sum(n for count, n in self.taken.items() if count > place)
            out.append(round(passed / reached, 4) if reached else None)
        return out


COPY: Final = "#"
"""Between a prompt's id and the number of its copy, where it is asked more than once."""


@dataclass(frozen=True)
class Timed:
    """One prompt, decoded once."""

    id: str
    dataset: str
    tokens: int
    seconds: float
    """Of this request alone."""

    @property
    def prompt(self) -> str:
        """The id without the number of the copy."""
        return self.id.partition(COPY)[0]


@dataclass(frozen=True)
class Speedup:
    """How many times as fast the drafter makes it: mean, and its 95 % interval."""

    mean: float
    low: float
    high: float

    def to_json(self) -> dict[str, float]:
        return {
            k: round(v, 4) for k, v in (("mean", self.mean), ("low", self.low), ("high", self.high))
        }


def paired_speedup(
    base: Sequence[Timed], draft: Sequence[Timed], *, factor: float | None = None, seed: int = 0
) -> Speedup:
    """The quotient of tokens per second, over the same prompts with and without the drafter.

    The interval is a paired bootstrap: prompts are drawn with replacement, each with both its
    times, so that a hard prompt weighs on both sides. A prompt that was asked several times is
    drawn with all of them: copies tell nothing new of how prompts differ. `factor` is the quotient
    of the throughputs where many requests ran at a time: the mean then is it, and the interval is
    as wide in proportion as that of single requests. ValueError when the prompts differ.
    """
    if [t.id for t in base] != [t.id for t in draft] or not base:
        raise ValueError("both sides must have decoded the same prompts, at least one")
    sums: dict[str, list[float]] = {}
    for b, d in zip(base, draft, strict=True):
        one = sums.setdefault(b.prompt, [0.0] * 4)
        for place, value in enumerate((b.tokens, b.seconds, d.tokens, d.seconds)):
            one[place] += value
    table = np.array(list(sums.values()))

    def quotient(sums: Any) -> Any:
        return (sums[..., 2] / sums[..., 3]) / (sums[..., 0] / sums[..., 1])

    draws = np.random.default_rng(seed).integers(0, len(table), (_DRAWS, len(table)))
    low, high = np.percentile(quotient(table[draws].sum(axis=1)), (_LOW, _HIGH))
    mean = float(quotient(table.sum(axis=0)))
    scale = 1.0 if factor is None else factor / mean
    return Speedup(mean * scale, float(low) * scale, float(high) * scale)


def speeds_by_dataset(base: Sequence[Timed], draft: Sequence[Timed]) -> dict[str, dict[str, Any]]:
    """Of every dataset the tokens per second of one request, without and with the drafter, and the
    speed-up with its interval, left out where there is too little to tell one."""
    out: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(run.dataset for run in base):
        mine = [run for run in base if run.dataset == name]
        theirs = [run for run in draft if run.dataset == name]
        out[name] = {
            "baseline_tok_s": round(rate(mine), 2),
            "drafter_tok_s": round(rate(theirs), 2),
        }
        with np.errstate(all="ignore"):  # empty answers: a draw may hold nothing else
            told = paired_speedup(mine, theirs).to_json()
        if np.isfinite(list(told.values())).all():
            out[name]["speedup"] = told
    return out


def by_dataset(answers: dict[str, list[Accept]]) -> dict[str, float | None]:
    """Accept length of every dataset."""
    out: dict[str, float | None] = {}
    for name, parts in answers.items():
        total = Accept()
        for part in parts:
            total.merge(part)
        out[name] = rounded(total.length)
    return out


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A figure for a file; None stays."""
    return None if value is None else round(value, digits)


def rate(runs: Sequence[Timed]) -> float:
    """Tokens per second of one request at a time."""
    seconds = sum(run.seconds for run in runs)
    return sum(run.tokens for run in runs) / seconds if seconds > 0 else 0.0
