"""Estimates of the time left, as a range, from what has been measured.

Work left is counted in tokens that are still to be made: for each dataset the prompts left times
its mean response (`lengths.expected`, which takes those in flight into account), less what those in
flight have already; or the tokens left to its cap, or to the cap over all datasets, which goes to
the datasets in their order. Three things are uncertain and independent: the mean lengths (standard
error of a heavy-tailed sample; what the tail model adds, and a dataset that has not begun and so
borrows the pooled mean, have a wide error), the lengths of the prompts that are left (which is what
remains at the end of a run), and the token rate (spread over recent windows). Their errors add in
squares; the range is the 80 % interval of a log-normal with that spread, which never reaches below
zero.

The run's time left is the sum over the phases that remain (`sum_of`): independent, so that their
distances from the middle add in squares.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from eagle_tui import lengths
from eagle_tui.lengths import Expected

Z80 = 1.2816
"""Standard deviations on each side of an 80 % interval."""
UNSEEN_SPREAD = 0.5
"""Relative error of a mean length that no response of the dataset has shown."""
MIN_RESPONSES = 5
"""Below this many responses in all, the estimate is unknown."""

Range = tuple[float, float, float]


@dataclass(frozen=True)
class Work:
    """What one dataset still has to do."""

    prompts_left: int
    """Prompts without a final state, those in flight included."""
    lengths: Mapping[int, int]
    """Responses so far by completion tokens."""
    tokens_left: int | None = None
    """Tokens left to its cap; None: no cap."""
    begun: Mapping[int, int] = field(default_factory=Counter)
    """Responses in flight, or held, by their tokens so far."""
    longest: int | None = None
    """Tokens of the longest response allowed."""
    known: Expected | None = None
    """What all these lengths lead to expect, by one who has worked it out already."""

    def seen(self) -> Expected:
        """What the dataset's own lengths lead to expect."""
        return self.known or lengths.expected(self.lengths, self.begun, self.longest)


@dataclass(frozen=True)
class Room:
    """What the caps over all datasets leave to them together. None: no cap."""

    tokens: int | None = None
    prompts: int | None = None


@dataclass(frozen=True)
class Estimate:
    """Tokens left with the relative standard error of that number."""

    tokens: float
    spread: float


@dataclass(frozen=True)
class Share:
    """What one dataset is expected to get still, under its own cap and those over all."""

    prompts: float
    """Responses."""
    tokens: float | None
    """Tokens that are still to be made for them; None while too little is known."""
    until: Estimate | None
    """Tokens left of it and of those before it; None while too little is known of any of them."""


def plan(works: Sequence[Work], room: Room = Room()) -> list[Share]:
    """What each dataset gets, in the order in which they are taken."""
    allot = _Allotment(works, room)
    return [allot.next(work) for work in works]


def tokens_left(works: Sequence[Work], room: Room = Room()) -> Estimate | None:
    """Tokens that all datasets together still have to make; None while too little is known."""
    return plan(works, room)[-1].until if works else Estimate(0.0, 0.0)


class _Allotment:
    """Goes through the datasets in order and gives each its share."""

    def __init__(self, works: Sequence[Work], room: Room) -> None:
        self._works = works
        finished = sum(work.seen().finished for work in works)
        self._known = finished >= MIN_RESPONSES and any(k for w in works for k in w.lengths)
        self._tokens, self._prompts = room.tokens, room.prompts
        self._total = self._variance = 0.0
        self._open = False
        """Some dataset's share in tokens is not known, so that no sum is."""

    @cached_property
    def _pooled(self) -> Expected:
        """What all datasets together lead to expect, each by its responses."""
        found = [(seen, seen.finished + sum(work.begun.values()))
                 for work in self._works if (seen := work.seen()).finished]  # fmt: skip
        n = sum(weight for _, weight in found)
        mean = sum(weight * seen.mean for seen, weight in found) / n
        square = sum(weight * (seen.deviation**2 + seen.mean**2) for seen, weight in found) / n
        return Expected(
            finished=sum(seen.finished for seen, _ in found),
            mean=mean,
            deviation=math.sqrt(max(0.0, square - mean**2)),
            extrapolated=sum(weight * seen.extrapolated for seen, weight in found) / n,
            begun_left=0.0,
        )

    def next(self, work: Work) -> Share:
        """The next dataset's share."""
        prompts = work.prompts_left
        if self._prompts is not None:
            prompts = min(prompts, self._prompts)
        if prompts <= 0 or work.tokens_left == 0 or self._tokens == 0:
            return Share(0.0, 0.0, self._sum())
        if not self._known:
            self._take(prompts, None)
            self._open = True
            return Share(float(prompts), None, None)
        return self._known_share(work, prompts)

    def _known_share(self, work: Work, prompts: int) -> Share:
        seen = work.seen()
        own = seen.finished >= MIN_RESPONSES
        if not own:
            seen = self._pooled
        begun = min(prompts, sum(work.begun.values()))
        fresh = prompts - begun
        so_far = sum(n * tokens for tokens, n in work.begun.items())
        # Of a dataset that borrows the mean, those begun are taken to make what is missing to it.
        begun_left = seen.begun_left if own else max(0.0, begun * seen.mean - so_far)
        expected = fresh * seen.mean + begun_left
        variance = self._variance_of(seen, own, prompts)
        whole = expected + so_far
        for cap in (work.tokens_left, self._tokens):
            if cap is not None and cap < whole:
                whole, variance = float(cap), 0.0
        left = max(0.0, whole - so_far)
        share = min(1.0, left / expected) if expected > 0 else 1.0
        self._take(prompts * share, whole)
        self._total += left
        if self._tokens == 0:
            self._variance = 0.0  # the cap says how much it is, whoever makes it
        else:
            self._variance += variance
        return Share(prompts * share, left, self._sum())

    @staticmethod
    def _variance_of(seen: Expected, own: bool, prompts: int) -> float:
        """Of the tokens of so many responses: what is not known of the mean, and their own."""
        if own:
            error = math.hypot(
                seen.deviation / math.sqrt(seen.finished), UNSEEN_SPREAD * seen.extrapolated
            )
        else:
            error = seen.mean * UNSEEN_SPREAD
        return (prompts * error) ** 2 + prompts * seen.deviation**2

    def _take(self, prompts: float, tokens: float | None) -> None:
        """Less room is left to those that come after."""
        if self._prompts is not None:
            self._prompts = max(0, self._prompts - math.ceil(prompts))
        if self._tokens is not None and tokens is not None:
            self._tokens = max(0, self._tokens - math.ceil(tokens))

    def _sum(self) -> Estimate | None:
        if self._open:
            return None
        spread = math.sqrt(self._variance) / self._total if self._total > 0 else 0.0
        return Estimate(self._total, spread)


def seconds_left(estimate: Estimate | None, rate: float | None, rate_spread: float) -> Range | None:
    """(low, middle, high) seconds at `rate` tokens/s whose relative standard error is
    `rate_spread`; None while unknown. Never negative, NaN or infinite."""
    if estimate is None:
        return None
    if estimate.tokens <= 0:
        return (0.0, 0.0, 0.0)
    if rate is None or not math.isfinite(rate) or rate <= 0:
        return None
    return around(
        estimate.tokens / rate, math.sqrt(math.log1p(estimate.spread**2 + rate_spread**2))
    )


def around(middle: float, spread: float) -> Range | None:
    """The 80 % interval of a log-normal with this median and this standard deviation of its
    logarithm; None when it has no finite end."""
    high = middle * math.exp(min(Z80 * spread, 700.0))
    return (middle * math.exp(-Z80 * spread), middle, high) if math.isfinite(high) else None


def progress_left(done: int, total: int, rate: float | None) -> Range | None:
    """Time left of a phase that counts items at `rate` a second. The spread shrinks with the share
    that is done. None while nothing was measured."""
    if total < done or total <= 0 or rate is None or rate <= 0:
        return None
    return around((total - done) / rate, 0.3 * (1 - done / total))


def sum_of(ranges: Iterable[Range]) -> Range | None:
    """The time of phases that come one after the other; None of nothing."""
    found = list(ranges)
    if not found:
        return None
    middle = sum(r[1] for r in found)
    below = math.sqrt(sum((r[1] - r[0]) ** 2 for r in found))
    above = math.sqrt(sum((r[2] - r[1]) ** 2 for r in found))
    return (max(0.0, middle - below), middle, middle + above)


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
