"""Lengths of responses in tokens: exact quantiles, and what they lead to expect.

Lengths are whole numbers below the longest response, so counting them is exact, small (some
thousand entries) and mergeable; no sketch is needed.

The mean of the *finished* responses leans short while long ones are in flight. Those in flight say
that a response is longer than what it has by now: they are right-censored, and
the mean is that of the Kaplan-Meier curve (Kaplan and Meier, Nonparametric estimation from
incomplete observations, JASA 53, 1958), in the form of Efron (The two sample problem with censored
data, 5th Berkeley Symposium, 1967): each censored one is taken to end like those that went on
beyond its length. Where too few went on, the curve has no end, and it is completed by an
exponential tail (Moeschberger and Klein, A comparison of several methods of estimating the survival
function when there is extreme right censoring, Biometrics 41, 1985), whose hazard is that of the
lengths above half of where it begins.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FEW = 5
"""Below this many responses beyond a length, the tail model says how it goes on."""


def quantiles(counts: Mapping[int, int], shares: Sequence[float]) -> list[float] | None:
    """The lengths below or at which each of `shares` (0..1, ascending) of all responses lie
    (nearest rank). None when there are no responses."""
    total = sum(counts.values())
    if not total:
        return None
    found: list[float] = []
    seen = 0
    wanted = iter(shares)
    share = next(wanted, None)
    for length in sorted(counts):
        seen += counts[length]
        while share is not None and seen >= max(1.0, share * total):
            found.append(float(length))
            share = next(wanted, None)
    return found


def mean(counts: Mapping[int, int]) -> float | None:
    """Mean length; None when there are no responses."""
    total = sum(counts.values())
    return sum(length * n for length, n in counts.items()) / total if total else None


def histogram(counts: Mapping[int, int], edges: Sequence[int]) -> tuple[int, ...]:
    """Responses below each of `edges` (ascending) and not below the one before, then those from the
    last edge on. Empty when there are no responses."""
    if not counts:
        return ()
    found = [0] * (len(edges) + 1)
    for length, n in counts.items():
        found[bisect_right(edges, length)] += n
    return tuple(found)


def from_json(counts: Mapping[str, int]) -> Counter[int]:
    """JSON keys are strings; lengths are numbers."""
    return Counter({int(length): n for length, n in counts.items()})


@dataclass(frozen=True)
class Expected:
    """What the lengths so far lead to expect of the next response."""

    finished: int
    """Responses that it was learned from."""
    mean: float
    deviation: float
    """Standard deviation of one response."""
    extrapolated: float
    """Tokens of the mean that come from the tail model, not from responses."""
    begun_left: float
    """Tokens that all those begun still have to make."""


class _Beyond:
    """Number, sum and sum of squares of the finished lengths beyond a length."""

    def __init__(self, finished: Mapping[int, int]) -> None:
        self.lengths = sorted(finished)
        n = total = squares = 0
        self._sums = [(0, 0, 0)]
        for length in reversed(self.lengths):
            count = finished[length]
            n, total, squares = n + count, total + count * length, squares + count * length**2
            self._sums.append((n, total, squares))

    def at(self, length: float) -> tuple[int, int, int]:
        return self._sums[len(self.lengths) - bisect_right(self.lengths, length)]

    def smallest_of_last(self, count: int) -> int:
        """A length beyond which at least `count` responses lie; 0 when there are not so many."""
        for length in reversed(self.lengths):
            if self.at(length)[0] >= count:
                return length
        return 0


def expected(
    finished: Mapping[int, int], begun: Mapping[int, int], longest: int | None = None
) -> Expected:
    """The next response, from those finished and those begun, each counted by its tokens (so far).
    No response is longer than `longest`. With none finished everything is 0."""
    fin_n = sum(finished.values())
    if not fin_n:
        return Expected(0, 0.0, 0.0, 0.0, 0.0)
    fin_sum = sum(length * count for length, count in finished.items())
    fin_squares = sum(length * length * count for length, count in finished.items())
    # Sorting thousands of lengths is not free, and most datasets have nothing in flight.
    beyond = _Beyond(finished if begun else {})
    most = float(longest) if longest is not None else math.inf
    # Of those begun beyond the length in hand: their number and, as they are expected to end, the
    # sums of their lengths and squares.
    n, total, squares = 0, 0.0, 0.0
    left = tail = 0.0
    for so_far in sorted(begun, reverse=True):
        above, above_sum, above_squares = beyond.at(so_far)
        if above >= FEW:
            end = (above_sum + total) / (above + n)
            square = (above_squares + squares) / (above + n)
        else:
            more = _residual(beyond, begun, so_far)
            end = max(float(so_far), min(most, so_far + more))
            square = end * end + (end - so_far) ** 2
            tail += begun[so_far] * (end - so_far)
        count = begun[so_far]
        left += count * (end - so_far)
        n, total, squares = n + count, total + count * end, squares + count * square
    everyone = fin_n + n
    middle = (fin_sum + total) / everyone
    variance = max(0.0, (fin_squares + squares) / everyone - middle * middle)
    # One response alone tells nothing of a spread; it is taken to be as wide as it is long.
    deviation = middle if fin_n == 1 else math.sqrt(variance * fin_n / (fin_n - 1))
    return Expected(fin_n, middle, deviation, tail / everyone, left)


def _residual(beyond: _Beyond, begun: Mapping[int, int], so_far: int) -> float:
    """Mean tokens that still come after `so_far`, by a constant hazard: the tokens made beyond half
    of that length for each response that ended there."""
    half = so_far / 2
    if beyond.at(half)[0] < FEW:
        half = min(half, beyond.smallest_of_last(FEW))
    ended, ended_sum, _ = beyond.at(half)
    made = ended_sum - half * ended + sum(n * (k - half) for k, n in begun.items() if k > half)
    return made / max(1, ended)
