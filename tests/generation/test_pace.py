"""When the crash journal pays: `pace.Pace`."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.generation.pace import REMEMBERED, Pace


def served(lengths: list[float], places: int) -> tuple[Pace, list[float], float]:
    """A server with so many places, always full, until all of `lengths` were begun: the pace, the
    starts of what is in flight then, and the time."""
    pace, now = Pace(), 0.0
    flying: list[tuple[float, float]] = []  # (end, start)
    for length in lengths:
        if len(flying) == places:
            flying.sort()
            now, started = flying.pop(0)
            pace.ended(started, now, answered=True)
        pace.started(now)
        flying.append((now + length, now))
    return pace, [start for _, start in flying], now


def test_nothing_is_said_before_there_were_as_many_answers_as_places() -> None:
    pace = Pace()
    for _ in range(8):
        pace.started(0.0)
    for _ in range(3):
        pace.ended(0.0, 0.01, answered=True)
        pace.started(0.01)
    assert pace.at_stake_s(0.01) is None
    for _ in range(5):
        pace.ended(0.0, 0.01, answered=True)
        pace.started(0.01)
    assert pace.at_stake_s(0.01) == pytest.approx(0.005)


def test_what_was_cut_short_tells_nothing() -> None:
    pace = Pace()
    pace.started(0.0)
    pace.ended(0.0, 5.0, answered=False)
    assert pace.at_stake_s(5.0) is None


def test_long_ones_still_in_flight_count() -> None:
    """The quick answers come first; those that take minutes have not ended yet."""
    pace = Pace()
    for _ in range(10):
        pace.started(0.0)
    for n in range(100):
        pace.started(n / 10)
        pace.ended(n / 10, n / 10 + 0.05, answered=True)
    stake = pace.at_stake_s(10.0)
    assert stake is not None
    assert stake > 9


def test_after_a_pause_the_answers_so_far_count() -> None:
    """All requests in flight are new, and so cost nothing yet; they will."""
    rng = random.Random(1)
    pace, starts, now = served([rng.uniform(20, 40) for _ in range(400)], 50)
    for start in starts:
        pace.ended(start, now, answered=False)
    for _ in starts:
        pace.started(now)
    stake = pace.at_stake_s(now)
    assert stake is not None
    assert stake == pytest.approx(15.6, rel=0.1)  # E[L²] / 2 E[L] of 20..40


def test_a_heavy_tail_is_more_than_half_a_mean_answer() -> None:
    rng = random.Random(2)
    lengths = [rng.lognormvariate(-0.72, 1.2) for _ in range(4000)]  # mean 1 s
    pace, starts, now = served(lengths, 200)
    stake = pace.at_stake_s(now)
    assert stake is not None
    assert stake > 1.2
    assert stake >= sum(now - s for s in starts) / len(starts) - 1e-6


def test_a_change_shows_soon() -> None:
    pace = Pace()
    for seconds, count in ((30.0, REMEMBERED), (0.1, 6 * REMEMBERED)):
        for _ in range(count):
            pace.started(0.0)
            pace.ended(0.0, seconds, answered=True)
    stake = pace.at_stake_s(0.0)
    assert stake is not None
    assert stake < 15


@given(st.lists(st.floats(0.0, 1e4), min_size=1, max_size=50))
def test_never_less_than_half_the_mean(lengths: list[float]) -> None:
    pace = Pace()
    for length in lengths:
        pace.started(100.0)
        pace.ended(100.0, 100.0 + length, answered=True)
    stake = pace.at_stake_s(100.0)
    assert stake is not None
    assert stake >= sum(lengths) / len(lengths) / 2 * 0.999 - 1e-6


def test_short_answers_between_kills_do_not_hide_what_is_cut_short() -> None:
    """Everything is ended every five seconds, so nothing but short answers ever comes; most of the
    time is spent on others."""
    pace = Pace()
    for round_ in range(20):
        at = 5.0 * round_
        for _ in range(30):
            pace.started(at)
        for _ in range(10):
            pace.ended(at, at + 0.5, answered=True)
        for _ in range(20):
            pace.ended(at, at + 5.0, answered=False)
    for _ in range(30):
        pace.started(100.0)
    assert pace.at_stake_s(100.0) == pytest.approx((10 * 0.5 + 20 * 5.0) / 10 / 2)
