"""Windows of bounded size: whole steps, every pack once, whatever the ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.pipeline.training.plan import Place, Plan
from eagle_tui.pipeline.training.window import WindowTooSmall, usable, window_end


def bytes_of(plan: Plan, epoch: int, packs: range, sizes: np.ndarray) -> int:
    return sum(int(sizes[row]) for pack in packs for row in plan.rows(epoch, pack))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
    st.integers(200, 1500),
    st.lists(st.integers(1, 3), min_size=1, max_size=8),
)
def test_windows_follow_each_other_and_hold_what_fits(
    lengths: list[int], limit: int, worlds: list[int]
) -> None:
    """Before every window the training may be interrupted and go on with another number of ranks.
    A pack takes 60 at most, so three always fit into 200."""
    sizes = np.array(lengths, np.int64)
    plan, place, turn = Plan(sizes, 60, 2, 0), Place(), 0
    taken: list[tuple[int, int]] = []
    while place.epoch < 2:
        world = worlds[turn % len(worlds)]
        turn += 1
        end = window_end(plan, place, world=world, steps=10**6, sizes=sizes, limit=limit)
        last = plan.packs(place.epoch)
        assert end > place.packs
        assert bytes_of(plan, place.epoch, range(place.packs, end), sizes) <= limit
        assert usable(place.packs, end, place, world=world, last=last)
        if end < last:  # one more step would not have fitted
            more = range(place.packs, min(end + world, last))
            assert bytes_of(plan, place.epoch, more, sizes) > limit
        taken += [(place.epoch, pack) for pack in range(place.packs, end)]
        epoch = place.epoch
        while (place.epoch, place.packs) < (epoch, end):  # as the training steps through it
            place = plan.after(place, world)
        assert (place.epoch, place.packs) in ((epoch, end), (epoch + 1, 0))
    assert taken == [(epoch, pack) for epoch in range(2) for pack in range(plan.packs(epoch))]


def test_it_ends_with_the_last_step_that_is_wanted() -> None:
    sizes = np.full(20, 10, np.int64)
    plan = Plan(sizes, 10, 1, 0)
    assert window_end(plan, Place(), world=2, steps=3, sizes=sizes, limit=10**6) == 6
    assert window_end(plan, Place(0, 18, 9), world=4, steps=3, sizes=sizes, limit=10**6) == 20


def test_a_window_that_holds_no_step_says_what_one_needs() -> None:
    sizes = np.full(20, 10, np.int64)
    with pytest.raises(WindowTooSmall) as caught:
        window_end(Plan(sizes, 10, 1, 0), Place(), world=4, steps=9, sizes=sizes, limit=39)
    assert caught.value.needed == 40


@pytest.mark.parametrize(
    ("packs", "world", "serves"),
    [(4, 1, True), (10, 1, True), (12, 1, False), (3, 1, False), (6, 2, True), (5, 2, False)],
)
def test_a_window_that_is_there_serves_when_it_ends_with_a_step(
    packs: int, world: int, serves: bool
) -> None:
    assert usable(4, 12, Place(0, packs, 0), world=world, last=30) is serves
    assert usable(4, 12, Place(0, 5, 0), world=2, last=12)  # the last step of an epoch may be short
