"""Batches: what is asked, where, and what is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from eagle_tui.pipeline.drafter.attention import Documents
from eagle_tui.pipeline.drafter.config import DrafterConfig
from eagle_tui.pipeline.hidden import find_hidden
from eagle_tui.pipeline.training.data import Ahead, Table
from eagle_tui.pipeline.training.flops import step_flops
from eagle_tui.pipeline.training.sources import StoredRows
from eagle_tui.pipeline.training.validate import chosen_rows, packs_of

from .world import PROMPT, WIDTH, make_world

STEPS = 3


@pytest.fixture
def table(tmp_path: Path) -> Table:
    world = make_world(tmp_path)
    world.extract([16, 24, 5, 33])
    return Table(StoredRows(find_hidden(world.run, "train")), 30, STEPS)


def test_rows_are_cut_and_those_that_teach_nothing_left_out(table: Table) -> None:
    assert table.lengths.tolist() == [16, 24, 30]
    assert (
        table.skipped == 1 and table.example == "row train-00001:0 of a (train-00001.safetensors)"
    )
    assert table.datasets == ["a", "b", "b"]
    ids, mask = next(iter(table.tokens()))
    assert len(ids) == 16 and mask.sum() == 16 - PROMPT


def test_anchors_are_the_rows_before_supervised_tokens(table: Table) -> None:
    batch = table.batch([0, 2])
    assert batch.tokens == 46
    assert batch.supervised == (16 - PROMPT, 30 - PROMPT)
    assert batch.depths.tolist() == [*range(PROMPT, 16), *range(PROMPT, 30)]
    rows = batch.rows.docs.tail_rows[batch.anchors]
    assert rows.tolist() == [*range(PROMPT - 1, 15), *range(16 + PROMPT - 1, 45)]
    assert batch.rows.positions.tolist() == [*range(16), *range(30)]
    # The tail reaches as many rows back as there are steps.
    assert batch.rows.docs.tail_bounds == (0, 16 - (PROMPT - STEPS), 44)
    first = table.source.states([0], 30)[0]
    assert first is not None
    last = first.last
    assert torch.equal(batch.last[: 16 - PROMPT], last[PROMPT:16])


def test_a_rank_without_rows_gets_something_to_pass_through(table: Table) -> None:
    batch = table.batch([])
    assert batch.tokens == 2 and len(batch.depths) == 0 and batch.last.shape == (0, WIDTH)


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_made_ahead_and_errors_reach_the_taker(table: Table, threads: int) -> None:
    def packs() -> Iterator[list[int]]:
        yield [0]
        yield [1, 2]
        yield [99]

    with Ahead(table, packs(), pin=False, threads=threads) as ahead:
        for numbers in ((0,), (1, 2)):
            batch = ahead.take()
            assert batch is not None and batch.numbers == numbers
        with pytest.raises(IndexError):
            ahead.take()


def test_leaving_early_makes_no_more_batches(table: Table) -> None:
    with Ahead(table, iter([[0]] * 1000), pin=False) as ahead:
        ahead.take()
    assert all(future.cancelled() or future.done() for future in ahead._coming)


def test_the_first_rows_of_each_dataset_are_judged(table: Table) -> None:
    assert chosen_rows(table, 1) == [0, 1]
    assert chosen_rows(table, 9) == [0, 1, 2]
    assert packs_of(table, [0, 1, 2], 40) == [[0, 1], [2]]
    assert packs_of(table, [0, 1, 2], 1) == [[0], [1], [2]]


def test_arithmetic_is_that_of_the_matrices() -> None:
    """Counted by hand for one document of 8 rows, all of it tail, without attention's own."""
    config = DrafterConfig(32, 4, 2, 8, 40, 64, 48, (2, 4, 5), 512)
    docs = Documents.of([8])
    h, q, kv, inner = 32, 32, 16, 40
    everywhere = 3 * h * h + h * (q + 2 * kv) + h * 2 * kv
    first = h * q + q * h + 3 * h * inner
    linear = 8 * (everywhere + first + (first + h * 2 * kv))
    pairs = 8 * 8 / 2
    forward = 2 * (linear + 2 * q * pairs * 2) + 2 * 5 * h * 48 * 2
    assert step_flops(config, docs, 5, 2, 100) == 3 * forward + 2 * 5 * h * 100
