"""The effect of a change, with an uncertainty that holds for samples that follow each other."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.supervisor.tuning.effect import Window, effect


def noisy(mean: float, spread: float, related: float, count: int, seed: int) -> tuple[float, ...]:
    """An AR(1) series: each sample keeps `related` of the one before."""
    noise = random.Random(seed)
    now, found = noise.gauss(0, spread), []
    for _ in range(count):
        now = related * now + math.sqrt(1 - related**2) * noise.gauss(0, spread)
        found.append(mean + now)
    return tuple(found)


def test_the_sentence_of_the_issue() -> None:
    before = Window(noisy(862, 40, 0.8, 900, 1), 1.0, (50.0,) * 900, (0.82,) * 900, retractions=3)
    after = Window(noisy(1187, 40, 0.8, 900, 2), 1.0, (61.0,) * 900, (0.79,) * 900, retractions=0)
    found = effect(before, after)
    assert found.percent == pytest.approx(37.7, abs=2)
    assert found.half_width is not None and 0.5 < found.half_width < 3 and found.seen
    was, now = (f"{x:,.0f}" for x in found.tok_s if x is not None)
    assert found.sentence() == (
        f"{was} → {now} tok/s (+{found.percent:.0f} % ± {found.half_width:.0f}); "
        "running 50 → 61; KV use 82 → 79 %; retracted an hour 12 → 0"
    )


@pytest.mark.parametrize("related", [0.0, 0.9])
def test_the_interval_holds_what_it_says(related: float) -> None:
    """Of many pairs without a difference, about one in twenty may show one. The naive error
    (spread by the root of the number) would show one in most of those with related samples."""
    wrong = tried = 0
    for seed in range(300):
        a = Window(noisy(1000, 100, related, 600, 2 * seed))
        b = Window(noisy(1000, 100, related, 600, 2 * seed + 1))
        found = effect(a, b)
        if found.half_width is not None:
            tried += 1
            wrong += bool(found.seen)
    assert tried > 280
    assert 0.02 < wrong / tried < 0.09


def test_too_little_is_said_and_not_guessed() -> None:
    long = Window((100.0, 101.0) * 50)
    few = effect(Window((90.0,) * 4), long)
    assert (few.percent, few.half_width) == (None, None)
    assert few.sentence() == "90 → 100 tok/s (only 4 samples before the change)"
    some = effect(long, Window((120.0, 121.0) * 6))
    assert some.percent == pytest.approx(19.9, abs=0.1) and some.half_width is None
    assert some.sentence().endswith("(+20 %, uncertain: only 12 samples after the change)")
    none = effect(Window(()), long)
    assert none.sentence() == "not measured: nothing was generated before the change"
    idle = effect(Window((0.0,) * 100), long)
    assert idle.percent is None and "nothing was generated before" in idle.reason
    dead = effect(long, Window((0.0,) * 100))
    assert dead.percent == -100.0 and dead.half_width is None


def test_a_drift_has_no_interval() -> None:
    drifting = Window(tuple(float(n) for n in range(1, 601)))
    found = effect(drifting, Window((300.0, 301.0) * 300))
    assert found.half_width is None and "the speed drifted before the change" in found.sentence()


def test_no_difference_is_said_so() -> None:
    a, b = noisy(500, 50, 0.5, 300, 7), noisy(500, 50, 0.5, 300, 8)
    assert "no difference beyond chance" in effect(Window(a), Window(b)).sentence()


def test_other_datasets_are_named() -> None:
    steady = (100.0, 101.0) * 50
    before = Window(steady, mix={"b1": 900.0, "b2": 100.0})
    assert effect(before, Window(steady, mix={"b1": 85.0, "b2": 15.0})).mix_note == ""
    found = effect(before, Window(steady, mix={"b2": 50.0, "b8": 50.0}))
    assert "other datasets than before (b1 90 → 0 % of the tokens)" in found.sentence()


samples = st.lists(
    st.floats(min_value=0, max_value=1e6) | st.sampled_from([math.nan, math.inf]), max_size=80
)


@given(samples, samples)
def test_any_samples_give_a_finite_answer(a: list[float], b: list[float]) -> None:
    found = effect(Window(tuple(a)), Window(tuple(b)))
    for number in (found.percent, found.half_width, *found.tok_s):
        assert number is None or math.isfinite(number)
    assert found.half_width is None or found.half_width >= 0
    assert (found.half_width is None) == bool(found.reason)
    assert "nan" not in found.sentence()
