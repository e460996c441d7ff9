"""Every row once per epoch, in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.pipeline.training.plan import Place, Plan, rate_factor


def plan(lengths: list[int], batch: int = 50, epochs: int = 2, seed: int = 0) -> Plan:
    return Plan(np.array(lengths, np.int64), batch, epochs, seed)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 90), min_size=1, max_size=40),
    st.integers(0, 5),
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
)
def test_rows_are_taken_once_per_epoch_however_ranks_change(
    lengths: list[int], seed: int, worlds: list[int]
) -> None:
    """Before every step the training may be interrupted and go on with another number of ranks."""
    made, place, step = plan(lengths, seed=seed), Place(), 0
    taken: list[Counter[int]] = [Counter(), Counter()]
    while place.epoch < made.epochs:
        world = worlds[step % len(worlds)]
        for rank in range(world):
            taken[place.epoch].update(made.rows(place.epoch, place.packs + rank))
        place, step = made.after(place, world), step + 1
    assert taken == [Counter(range(len(lengths)))] * 2
    assert place.step == step


def test_packs_hold_what_fits_and_at_least_one_row() -> None:
    made = plan([10, 20, 30, 60, 5, 5, 5, 50], batch=50)
    for number in range(made.packs(0)):
        rows = made.rows(0, number)
        total = sum([10, 20, 30, 60, 5, 5, 5, 50][r] for r in rows)
        assert rows and (total <= 50 or len(rows) == 1)
    assert made.rows(0, made.packs(0)) == []


def test_order_changes_with_seed_and_epoch_and_with_nothing_else() -> None:
    lengths = [7] * 30
    first = plan(lengths).order(0).tolist()
    assert first == plan(lengths).order(0).tolist()
    assert first != plan(lengths).order(1).tolist()
    assert first != plan(lengths, seed=1).order(0).tolist()
    both = plan(lengths)
    both.order(1)
    assert both.order(0).tolist() == first


def test_total_steps_count_what_is_done_and_what_is_to_come() -> None:
    made = plan([25] * 20, batch=50, epochs=3)  # 10 packs an epoch
    assert made.total_steps(Place(), 1, None) == 30
    assert made.total_steps(Place(), 4, None) == 9  # 3 each: the last one is not full
    assert made.total_steps(Place(1, 4, 14), 2, None) == 14 + 3 + 5
    assert made.total_steps(Place(), 1, 12) == 12
    assert made.total_steps(Place(1, 4, 14), 1, 12) == 14  # already beyond
    assert made.total_steps(Place(3, 0, 30), 1, None) == 30


@pytest.mark.parametrize(("step", "factor"), [(0, 1 / 6), (4, 5 / 6), (5, 1.0), (100, 0.0)])
def test_rate_rises_in_a_line_and_falls_in_a_cosine(step: int, factor: float) -> None:
    assert rate_factor(step, 100, 0.05) == pytest.approx(factor)


def test_rate_without_warm_up_begins_at_the_peak() -> None:
    factors = [rate_factor(step, 10, 0.0) for step in range(10)]
    assert factors[0] == 1.0
    assert factors == sorted(factors, reverse=True) and factors[-1] > 0
