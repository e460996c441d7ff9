"""Estimates of the time left, as a range, from what has been measured.

Work left is counted in tokens: for each dataset the prompts left (or the tokens left to its cap)
times its mean response. Two things are uncertain and independent: the mean lengths (standard error
of a heavy-tailed sample; a dataset that has not begun borrows the pooled mean with a wide error)
and the token rate (spread over recent windows). Their relative errors add in squares; the range is
the 80 % interval of a log-normal with that spread, which never reaches below zero.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Z80 = 1.2816
"""Standard deviations on each side of an 80 % interval."""
UNSEEN_SPREAD = 0.5
"""Relative error of the mean length of a dataset that has no response yet."""
MIN_RESPONSES = 5
"""Below this many responses in all, the estimate is unknown."""

Range = tuple[float, float, float]


@dataclass(frozen=True)
class Work:
    """What one dataset still has to do."""

    prompts_left: int
    lengths: Counter[int]
    """Responses so far by completion tokens."""
    tokens_left: int | None = None
    """Tokens left to its cap; None: no cap."""


@dataclass(frozen=True)
class Estimate:
    """Tokens left with the relative standard error of that number."""

    tokens: float
    spread: float


def _moments(lengths: Counter[int]) -> tuple[int, float, float]:
    """Number, mean and standard deviation."""
    n = sum(lengths.values())
    if n == 0:
        return 0, 0.0, 0.0
    mean = sum(k * v for k, v in lengths.items()) / n
    if n == 1:
        return 1, mean, mean
    variance = sum(v * (k - mean) ** 2 for k, v in lengths.items()) / (n - 1)
    return n, mean, math.sqrt(variance)


def tokens_left(works: Sequence[Work]) -> Estimate | None:
    """Tokens that all datasets together still have to make; None while too little is known."""
    return tokens_left_until(works)[-1] if works else Estimate(0.0, 0.0)


def tokens_left_until(works: Sequence[Work]) -> list[Estimate | None]:
    """For each dataset, the tokens left of it and of those before it. None while too little is
    known of any of them."""
    pooled: Counter[int] = Counter()
    for work in works:
        pooled.update(work.lengths)
    n_all, mean_all, _ = _moments(pooled)
    known = n_all >= MIN_RESPONSES and mean_all > 0
    total = variance = 0.0
    found: list[Estimate | None] = []
    for work in works:
        if work.prompts_left > 0 and work.tokens_left != 0:
            n, mean, deviation = _moments(work.lengths)
            if n < MIN_RESPONSES:
                mean, error = mean_all, mean_all * UNSEEN_SPREAD
            else:
                error = deviation / math.sqrt(n)
            expected = work.prompts_left * mean
            error *= work.prompts_left
            if work.tokens_left is not None and work.tokens_left < expected:
                expected, error = float(work.tokens_left), 0.0
            total += expected
            variance += error * error
            found.append(_estimate(total, variance) if known else None)
        else:
            found.append(_estimate(total, variance) if known or total == 0 else None)
    return found


def _estimate(total: float, variance: float) -> Estimate:
    return Estimate(total, math.sqrt(variance) / total if total > 0 else 0.0)


def seconds_left(estimate: Estimate | None, rate: float | None, rate_spread: float) -> Range | None:
    """(low, middle, high) seconds at `rate` tokens/s whose relative standard error is
    `rate_spread`; None while unknown. Never negative, NaN or infinite."""
    if estimate is None:
        return None
    if estimate.tokens <= 0:
        return (0.0, 0.0, 0.0)
    if rate is None or not math.isfinite(rate) or rate <= 0:
        return None
    middle = estimate.tokens / rate
    spread = math.sqrt(math.log1p(estimate.spread**2 + rate_spread**2))
    low, high = middle * math.exp(-Z80 * spread), middle * math.exp(Z80 * spread)
    return (low, middle, high) if math.isfinite(high) else None


def progress_left(done: int, total: int, rate: float | None) -> Range | None:
    """Time left of a phase that counts items at `rate` a second. The spread shrinks with the share
    that is done. None while nothing was measured."""
    if total < done or total <= 0 or rate is None or rate <= 0:
        return None
    middle = (total - done) / rate
    spread = 0.3 * (1 - done / total)
    found = (middle * math.exp(-Z80 * spread), middle, middle * math.exp(Z80 * spread))
    return found if math.isfinite(found[2]) else None


class RateWindow:
    """Rate of a growing count over *active* seconds: paused time does not count.

    `add` takes cumulative values. The window holds up to `span_s` active seconds.
    """

    def __init__(self, span_s: float = 600.0, *, counter: bool = True) -> None:
        """`counter`: a value that falls is a counter that began anew; otherwise it is a sum from
        which something was taken away, which is no growth."""
        self._span = span_s
        self._counter = counter
        self._points: list[tuple[float, float]] = [(0.0, 0.0)]
        self._last_mono: float | None = None
        self._last_value: float | None = None
        self._active = 0.0
        self._count = 0.0

    def add(self, mono: float, value: float, *, active: bool) -> None:
        """The count stood at `value` at monotonic time `mono`. A count that fell began anew."""
        if self._last_mono is not None and self._last_value is not None:
            grown = value - self._last_value
            if grown < 0:
                grown = value if self._counter else 0.0
            self._count += grown
            if active:
                self._active += max(0.0, mono - self._last_mono)
        self._last_mono, self._last_value = mono, value
        if self._active - self._points[-1][0] >= 1.0:
            self._points.append((self._active, self._count))
            while len(self._points) > 2 and self._active - self._points[1][0] >= self._span:
                self._points.pop(0)

    def rate(self, span_s: float | None = None, least_s: float = 3.0) -> float | None:
        """Growth per active second over the last `span_s` seconds; None below `least_s` of them."""
        end_t, end_c = self._points[-1]
        start_t, start_c = self._points[0]
        if span_s is not None:
            for t, c in self._points:
                if t >= end_t - span_s:
                    start_t, start_c = t, c
                    break
        if end_t - start_t < least_s:
            return None
        return (end_c - start_c) / (end_t - start_t)

    def spread(self, parts: int = 6) -> float:
        """Relative standard error of the rate, from `parts` equal pieces of the window."""
        end_t = self._points[-1][0]
        start_t = self._points[0][0]
        if end_t - start_t < parts * 2.0:
            return 0.3
        step = (end_t - start_t) / parts
        edges = [self._at(start_t + step * i) for i in range(parts + 1)]
        rates = [b - a for a, b in itertools.pairwise(edges)]
        mean = sum(rates) / parts
        if mean <= 0:
            return 0.3
        variance = sum((r - mean) ** 2 for r in rates) / (parts - 1)
        return math.sqrt(variance / parts) / mean

    def _at(self, t: float) -> float:
        """The count at active time `t`, between two points linearly."""
        for (t0, c0), (t1, c1) in itertools.pairwise(self._points):
            if t <= t1:
                share = (t - t0) / (t1 - t0) if t1 > t0 else 0.0
                return c0 + share * (c1 - c0)
        return self._points[-1][1]
