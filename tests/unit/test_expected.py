"""What lengths lead to expect while answers are in flight: against the truth of simulated runs."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import eta, lengths
from eagle_tui.eta import Room, Work

counts = st.dictionaries(st.integers(0, 5000), st.integers(1, 40), max_size=25)


@given(counts)
def test_with_nothing_in_flight_it_is_mean_and_deviation(finished: dict[int, int]) -> None:
    found = lengths.expected(finished, {})
    flat = [k for k, n in finished.items() for _ in range(n)]
    assert found.finished == len(flat) and found.begun_left == found.extrapolated == 0
    assert found.mean == pytest.approx(sum(flat) / len(flat) if flat else 0.0)
    if len(flat) > 1:
        variance = sum((k - found.mean) ** 2 for k in flat) / (len(flat) - 1)
        assert found.deviation == pytest.approx(math.sqrt(variance), abs=1e-3)


def kaplan_meier_mean(finished: list[int], begun: list[int]) -> float:
    """The area under the curve, as textbooks draw it."""
    area, survive, at = 0.0, 1.0, 0
    for length in sorted(set(finished)):
        area += survive * (length - at)
        at_risk = sum(k >= length for k in finished) + sum(k >= length for k in begun)
        survive *= 1 - finished.count(length) / at_risk
        at = length
    return area


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
    st.lists(st.integers(0, 60), max_size=30),
)
def test_it_is_the_area_under_the_kaplan_meier_curve(finished: list[int], begun: list[int]) -> None:
    """Where enough responses end beyond each one in flight, so that there is no tail to add."""
    finished += [61] * lengths.FEW
    found = lengths.expected(Counter(finished), Counter(begun))
    assert found.extrapolated == 0
    assert found.mean == pytest.approx(kaplan_meier_mean(finished, begun))


@given(counts, counts, st.one_of(st.none(), st.integers(1, 6000)))
def test_never_absurd(finished: dict[int, int], begun: dict[int, int], longest: int | None) -> None:
    found = lengths.expected(finished, begun, longest)
    figures = (found.mean, found.deviation, found.extrapolated, found.begun_left)
    assert all(math.isfinite(x) and x >= 0 for x in figures)
    if finished:
        assert found.mean >= (lengths.mean(finished) or 0) - 1e-9 or min(begun) < max(finished)
        assert found.extrapolated <= found.mean + 1e-9
        top = max(longest or 0, *finished, *begun) if begun else max(finished)
        if longest is not None or not begun:
            assert found.mean <= top + 1e-6


def test_long_ones_in_flight_make_the_next_one_longer() -> None:
    finished = Counter({100: 30, 2000: 10})
    alone = lengths.expected(finished, {})
    some = lengths.expected(finished, {500: 20})
    assert some.mean > alone.mean and some.extrapolated == 0
    assert some.begun_left == 20 * 1500  # all that went beyond 500 went to 2,000
    beyond = lengths.expected(finished, {3000: 4}, longest=4096)
    assert beyond.extrapolated > 0 and beyond.begun_left <= 4 * 1096


@dataclass(frozen=True)
class Moment:
    """A run of which a share is done: what is known, and what is truly left."""

    finished: Counter[int]
    begun: Counter[int]
    fresh: int
    tokens_left: float


def simulate(
    draw: Callable[[random.Random], float], seed: int, prompts: int, places: int, share: float
) -> Moment:
    """`places` requests at a time, one token each in a unit of time, no response above 16,384."""
    rng = random.Random(seed)
    asked = [min(16_384, max(1, int(draw(rng)))) for _ in range(prompts)]
    total = sum(asked)
    running = [(length, 0.0) for length in asked[:places]]  # when it ends, when it began
    heapq.heapify(running)
    starts, done, made, sent = 0.0, Counter[int](), 0, places
    while running:
        end, start = running[0]
        produced = made + len(running) * end - starts
        if produced >= share * total:
            now = end - (produced - share * total) / len(running)
            begun = Counter(int(now - start) for _, start in running)
            return Moment(done, begun, prompts - sent, (1 - share) * total)
        heapq.heappop(running)
        length = round(end - start)
        done[length] += 1
        made, starts = made + length, starts - start
        if sent < prompts:
            heapq.heappush(running, (end + asked[sent], end))
            starts, sent = starts + end, sent + 1
    raise AssertionError("the run was over before")


DRAWS: dict[str, Callable[[random.Random], float]] = {
    # The median of the run that this program was made for, and about its mean.
    "log-normal": lambda rng: rng.lognormvariate(math.log(646), 1.25),
    "Pareto": lambda rng: 200 * rng.paretovariate(1.3),
    "two kinds": lambda rng: rng.lognormvariate(math.log(200 if rng.random() < 0.6 else 4000), 0.6),
}


@pytest.mark.parametrize("name", DRAWS)
def test_little_bias_from_a_twentieth_of_the_work_on(name: str) -> None:
    """2,000 prompts, 32 at a time: as many for each place as in a tenth of a real run."""
    for share, allowed, before in ((0.05, 0.2, -0.35), (0.1, 0.12, -0.25), (0.3, 0.08, -0.08)):
        new, old = [], []
        for seed in range(10):
            now = simulate(DRAWS[name], seed, 2000, 32, share)
            left = now.fresh + sum(now.begun.values())
            found = eta.tokens_left([Work(left, now.finished, begun=now.begun, longest=16_384)])
            assert found is not None
            new.append(found.tokens / now.tokens_left - 1)
            old.append(left * (lengths.mean(now.finished) or 0) / now.tokens_left - 1)
        assert abs(sum(new)) / 10 < allowed, (share, new)
        # What it was: the mean of those finished, times the prompts without an answer.
        assert sum(old) / 10 < before, (share, old)


def test_the_range_holds_the_truth_about_four_times_in_five() -> None:
    """At a tenth of the work and near its end, where single long answers decide."""
    for share in (0.1, 0.95):
        hits = 0
        for seed in range(60):
            now = simulate(DRAWS["log-normal"], seed, 600, 16, share)
            left = now.fresh + sum(now.begun.values())
            work = Work(left, now.finished, begun=now.begun, longest=16_384)
            found = eta.seconds_left(eta.tokens_left([work]), 1.0, 0.0)
            assert found is not None
            hits += found[0] <= now.tokens_left <= found[2]
        assert 0.6 <= hits / 60 <= 1.0, share


@given(
    st.lists(st.tuples(st.integers(0, 300), counts, counts), max_size=4),
    st.one_of(st.none(), st.integers(0, 50_000)),
    st.one_of(st.none(), st.integers(0, 400)),
)
def test_shares_keep_to_the_room(
    given_works: list[tuple[int, dict[int, int], dict[int, int]]],
    tokens: int | None,
    prompts: int | None,
) -> None:
    works = [Work(left, done, begun=begun) for left, done, begun in given_works]
    shares = eta.plan(works, Room(tokens, prompts))
    assert all(0 <= s.prompts <= w.prompts_left for s, w in zip(shares, works, strict=True))
    if prompts is not None:
        assert sum(s.prompts for s in shares) <= prompts + 1e-6
    known = [s.tokens for s in shares if s.tokens is not None]
    if tokens is not None:
        assert sum(known) <= tokens + 1e-6
    untils = [s.until.tokens for s in shares if s.until is not None]
    assert untils == sorted(untils)
    free = eta.plan(works)
    assert all(a.prompts <= b.prompts + 1e-6 for a, b in zip(shares, free, strict=True))


def test_the_time_of_phases_adds_up() -> None:
    assert eta.sum_of([]) is None
    assert eta.sum_of([(5.0, 10.0, 20.0)]) == (5.0, 10.0, 20.0)
    low, middle, high = eta.sum_of([(7.0, 10.0, 14.0), (16.0, 20.0, 23.0)]) or (0, 0, 0)
    assert (low, middle, high) == (25.0, 30.0, 35.0)
