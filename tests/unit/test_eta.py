"""Estimates: a range that contains the truth mostly, and never an absurd number."""

from __future__ import annotations

import math
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import eta, lengths
from eagle_tui.eta import RateWindow, Work


def test_unknown_until_measured() -> None:
    # A run that resumes at 71 of 100 with nothing measured yet.
    work = Work(29, Counter())
    assert eta.tokens_left([work]) is None
    assert eta.seconds_left(None, 100.0, 0.1) is None
    some = eta.tokens_left([Work(29, Counter({100: 10}))])
    assert eta.seconds_left(some, None, 0.1) is None
    assert eta.seconds_left(some, 0.0, 0.1) is None
    assert eta.progress_left(71, 100, None) is None
    assert eta.progress_left(71, 100, 0.0) is None
    assert eta.progress_left(0, 0, 1.0) is None
    assert eta.progress_left(100, 100, 2.0) == (0, 0, 0)
    half = eta.progress_left(50, 100, 2.0)
    assert half is not None and half[0] < half[1] == 25.0 < half[2]


def test_done_is_zero() -> None:
    assert eta.seconds_left(eta.tokens_left([Work(0, Counter({5: 9}))]), 1.0, 0.1) == (0, 0, 0)
    capped = Work(100, Counter({5: 9}), tokens_left=0)
    assert eta.seconds_left(eta.tokens_left([capped]), 1.0, 0.1) == (0, 0, 0)


def test_cap_limits_the_tokens() -> None:
    found = eta.tokens_left([Work(1000, Counter({100: 50}), tokens_left=2_000)])
    assert found is not None and found.tokens == 2_000


def test_a_dataset_not_begun_borrows_the_mean_and_widens_the_range() -> None:
    seen = Work(100, Counter({100: 50}))
    both = eta.tokens_left([seen, Work(100, Counter())])
    alone = eta.tokens_left([seen])
    assert both is not None and alone is not None
    assert both.tokens == 20_000
    assert both.spread > alone.spread


@given(
    st.integers(0, 10**6),
    st.dictionaries(st.integers(0, 20_000), st.integers(1, 1000), max_size=20),
    st.one_of(st.none(), st.integers(0, 10**9)),
    st.floats(0, 1e6),
    st.floats(0, 10),
)
def test_never_absurd(
    left: int, seen: dict[int, int], cap: int | None, rate: float, spread: float
) -> None:
    found = eta.seconds_left(eta.tokens_left([Work(left, Counter(seen), cap)]), rate, spread)
    if found is not None:
        assert all(math.isfinite(x) and x >= 0 for x in found)
        assert found[0] <= found[1] <= found[2]


def test_the_range_holds_the_truth_about_four_times_in_five() -> None:
    rng = random.Random(1)
    hits = 0
    for _ in range(300):
        draw = [int(rng.lognormvariate(5.5, 0.8)) for _ in range(1000)]
        seen, rest = draw[:200], draw[200:]
        found = eta.seconds_left(eta.tokens_left([Work(800, Counter(seen))]), 100.0, 0.0)
        assert found is not None
        hits += found[0] <= sum(rest) / 100.0 <= found[2]
    assert 0.65 <= hits / 300 <= 0.95


def test_rates_leave_out_pauses_and_counter_resets() -> None:
    window = RateWindow()
    for second in range(11):
        window.add(100.0 + second, 50.0 * second, active=True)
    for second in range(11, 60):
        window.add(100.0 + second, 500.0, active=False)
    assert window.rate() == 50.0
    window.add(160.0, 30.0, active=True)  # the counter began anew: 30 more
    assert window.rate() is not None and 40 < window.rate() < 55  # type: ignore[operator]


def test_rate_is_unknown_at_first() -> None:
    window = RateWindow()
    window.add(5.0, 71.0, active=True)
    assert window.rate() is None


@given(st.dictionaries(st.integers(0, 5000), st.integers(1, 50), min_size=1, max_size=30))
def test_quantiles_are_exact(counts: dict[int, int]) -> None:
    flat = sorted(k for k, n in counts.items() for _ in range(n))
    found = lengths.quantiles(counts, (0.5, 0.95, 1.0))
    assert found is not None
    for share, value in zip((0.5, 0.95, 1.0), found, strict=True):
        assert value == flat[max(0, math.ceil(share * len(flat)) - 1)]
    assert lengths.mean(counts) == sum(flat) / len(flat)


def test_no_quantiles_of_nothing() -> None:
    assert lengths.quantiles({}, (0.5,)) is None
    assert lengths.mean({}) is None
    assert lengths.from_json({"12": 3}) == Counter({12: 3})
