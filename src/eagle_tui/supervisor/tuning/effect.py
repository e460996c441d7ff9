"""What a change of settings was worth: tokens a second before and after, with its uncertainty.

Samples of a server's speed follow each other closely, so their spread divided by the root of their
number is far too small. The window is cut into blocks, and the means of blocks are taken as
independent: nonoverlapping batch means with 10 to 30 batches (B. Schmeiser, "Batch size effects in
the analysis of simulation output", Operations Research 30, 1982; A. Law, "Simulation Modeling and
Analysis", ch. 9). Where neighbouring blocks still move together, fewer and longer ones are taken,
and they count as (1-r)/(1+r) of their number for the correlation r that is left (effective sample
size of a first-order autoregression). The error of the ratio is that of its logarithm by the delta
method, with Student's t and the degrees of freedom of Welch and Satterthwaite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, variance

LEAST = 10
"""Samples without which not even a difference is told."""
BLOCKS = (20, 15, 10, 7, 5)
"""Numbers of blocks that are tried, the most first."""
BLOCK_LEAST = 3
"""Samples of a block at least."""
RELATED = 0.35
"""Correlation of neighbouring blocks above which they count as dependent: about the noise of an
estimate from 20 blocks (1.5/√20)."""
MIX_APART = 0.2
"""Share of the tokens that comes from other datasets than before, from which on it is said."""

T_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5 %, for 1 to 30 degrees of freedom; 1.96 beyond."""


@dataclass(frozen=True)
class Window:
    """Samples at equal steps, of times at which generation really ran."""

    tok_s: tuple[float, ...]
    step_s: float = 1.0
    running: tuple[float, ...] = ()
    kv_usage: tuple[float, ...] = ()
    retractions: float | None = None
    """Requests retracted in the window; None: not known."""
    mix: Mapping[str, float] = field(default_factory=dict)
    """Tokens by dataset in the window; empty: not known."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.tok_s) * self.step_s


@dataclass(frozen=True)
class Effect:
    """Means before and after, the difference in per cent. None: not known; `reason` says why."""

    tok_s: tuple[float | None, float | None]
    percent: float | None
    half_width: float | None
    """Half of the 95 % interval of `percent`, in percentage points."""
    reason: str = ""
    running: tuple[float | None, float | None] = (None, None)
    kv_usage: tuple[float | None, float | None] = (None, None)
    retractions_per_h: tuple[float | None, float | None] = (None, None)
    mix_note: str = ""

    @property
    def seen(self) -> bool | None:
        """Whether there is a difference beyond chance; None: it cannot be told."""
        if self.percent is None or self.half_width is None:
            return None
        return abs(self.percent) > self.half_width

    def sentence(self) -> str:
        """`862 → 1,187 tok/s (+38 % ± 4); running 50 → 61; …`"""
        before, after = self.tok_s
        if before is None or after is None:
            return f"not measured: {self.reason}"
        head = f"{before:,.0f} → {after:,.0f} tok/s"
        if self.percent is None:
            head += f" ({self.reason})"
        elif self.half_width is None:
            head += f" ({self.percent:+.0f} %, uncertain: {self.reason})"
        else:
            digits = 0 if self.half_width >= 0.95 else 1
            head += f" ({self.percent:+.{digits}f} % ± {self.half_width:.{digits}f})"
            if not self.seen:
                head += ", no difference beyond chance"
        parts = [head]
        for name, (was, now), digits in (
            ("running", self.running, 0),
            ("retracted an hour", self.retractions_per_h, 0),
        ):
            if was is not None and now is not None:
                parts.append(f"{name} {was:,.{digits}f} → {now:,.{digits}f}")
        was, now = self.kv_usage
        if was is not None and now is not None:
            parts.insert(2, f"KV use {100 * was:.0f} → {100 * now:.0f} %")
        if self.mix_note:
            parts.append(self.mix_note)
        return "; ".join(parts)


def effect(before: Window, after: Window) -> Effect:
    """The effect of a change between two windows. Samples that are not finite are left out."""
    means = _mean(before.tok_s), _mean(after.tok_s)
    percent, half_width, reason = _difference(before, after)
    return Effect(
        tok_s=means,
        percent=percent,
        half_width=half_width,
        reason=reason,
        running=(_mean(before.running), _mean(after.running)),
        kv_usage=(_mean(before.kv_usage), _mean(after.kv_usage)),
        retractions_per_h=(_per_hour(before), _per_hour(after)),
        mix_note=_mix_note(before.mix, after.mix),
    )


def _difference(before: Window, after: Window) -> tuple[float | None, float | None, str]:
    """Difference in per cent, half of its interval, and why one is missing."""
    was, now = _finite(before.tok_s), _finite(after.tok_s)
    for name, samples in (("before", was), ("after", now)):
        if not samples:
            return None, None, f"nothing was generated {name} the change"
        if len(samples) < LEAST:
            return None, None, f"only {len(samples)} samples {name} the change"
    base, mean = fmean(was), fmean(now)
    if base <= 0:
        return None, None, "nothing was generated before the change"
    percent = 100.0 * (mean / base - 1.0)
    if mean <= 0:
        return percent, None, "nothing was generated after the change"
    spread_a, spread_b = _spread(was), _spread(now)
    if isinstance(spread_a, str):
        return percent, None, f"{spread_a} before the change"
    if isinstance(spread_b, str):
        return percent, None, f"{spread_b} after the change"
    (error_a, free_a), (error_b, free_b) = spread_a, spread_b
    relative = ((error_a / base) ** 2, (error_b / mean) ** 2)
    total = sum(relative)
    if total == 0.0:
        return percent, 0.0, ""
    freedom = total**2 / (relative[0] ** 2 / free_a + relative[1] ** 2 / free_b)
    half_width = 100.0 * (mean / base) * _t_95(freedom) * math.sqrt(total)
    return percent, half_width, ""


def _spread(samples: Sequence[float]) -> tuple[float, int] | str:
    """Standard error of the mean and its degrees of freedom, or why there is none."""
    tried = False
    for blocks in BLOCKS:
        size = len(samples) // blocks
        if size < BLOCK_LEAST:
            continue
        tried = True
        # What does not fill the blocks is left out at the beginning.
        start = len(samples) - size * blocks
        means = [fmean(samples[start + i * size : start + (i + 1) * size]) for i in range(blocks)]
        related = _related(means)
        if related <= RELATED:
            # What dependence is left makes them count for fewer.
            fewer = (1 + related) / (1 - related) if related > 0 else 1.0
            return math.sqrt(fewer * variance(means) / blocks), blocks - 1
    if not tried:
        return f"only {len(samples)} samples"
    return "the speed drifted"


def _related(means: Sequence[float]) -> float:
    """Correlation of neighbouring blocks (lag 1)."""
    mean = fmean(means)
    total = sum((m - mean) ** 2 for m in means)
    if total <= 1e-18 * max(1.0, mean * mean):
        return 0.0
    return sum((a - mean) * (b - mean) for a, b in pairwise(means)) / total


def _t_95(freedom: float) -> float:
    whole = max(1, math.floor(freedom))
    return T_95[whole - 1] if whole <= len(T_95) else 1.96


def _finite(samples: Sequence[float]) -> list[float]:
    return [s for s in samples if math.isfinite(s)]


def _mean(samples: Sequence[float]) -> float | None:
    finite = _finite(samples)
    return fmean(finite) if finite else None


def _per_hour(window: Window) -> float | None:
    if window.retractions is None or window.seconds <= 0:
        return None
    return window.retractions * 3600.0 / window.seconds


def _mix_note(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Says when other datasets were worked on than before, since that alone changes the speed."""
    was, now = sum(before.values()), sum(after.values())
    if was <= 0 or now <= 0:
        return ""
    names = before.keys() | after.keys()
    moved = {n: after.get(n, 0.0) / now - before.get(n, 0.0) / was for n in names}
    if sum(map(abs, moved.values())) / 2 < MIX_APART:
        return ""
    most = max(sorted(moved), key=lambda n: abs(moved[n]))
    shares = (100 * before.get(most, 0.0) / was, 100 * after.get(most, 0.0) / now)
    return f"other datasets than before ({most} {shares[0]:.0f} → {shares[1]:.0f} % of the tokens)"
