"""Which rows merge holds out."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.merge import Index, val_rows


def index_of(groups: list[tuple[int, int]]) -> Index:
    """Rows by dataset and prompt."""
    index = Index()
    for file, group in groups:
        index.add(file, 0, 0, 0, group)
    return index


@given(
    groups=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1),
    fraction=st.floats(0, 0.99),
    held=st.lists(st.none() | st.just("all") | st.integers(1, 5), max_size=3),
)
def test_equal_prompts_stay_on_one_side(
    groups: list[tuple[int, int]], fraction: float, held: list[Any]
) -> None:
    """Also those of two datasets: what is held out in one is not trained on in the other."""
    chosen = val_rows(index_of(groups), fraction, held)
    sides: dict[int, set[bool]] = {}
    for (_, group), val in zip(groups, chosen, strict=True):
        sides.setdefault(group, set()).add(bool(val))
    assert all(len(found) == 1 for found in sides.values())


@given(
    groups=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, unique=True),
    fraction=st.floats(0, 0.99),
)
def test_of_every_dataset_some_rows_and_never_all(
    groups: list[tuple[int, int]], fraction: float
) -> None:
    """Where no two datasets have a prompt in common."""
    apart = [(file, 10 * file + group) for file, group in groups]
    chosen = val_rows(index_of(apart), fraction)
    for file in {file for file, _ in apart}:
        here = [bool(val) for (f, _), val in zip(apart, chosen, strict=True) if f == file]
        assert False in here
        assert fraction == 0 or len(here) == 1 or True in here


@given(
    groups=st.lists(st.integers(0, 30), min_size=2, unique=True),
    held=st.integers(1, 40),
)
def test_as_many_as_are_held_out_and_one_is_left(groups: list[int], held: int) -> None:
    index = Index()
    for group in groups:
        index.add(0, 0, 0, 0, group)
    chosen = val_rows(index, 0.5, [held])
    assert int(chosen.sum()) == min(held, len(groups) - 1)
    assert val_rows(index, 0.0, ["all"]).all()
