"""The slot cache, against a model that has no cache at all."""

from __future__ import annotations

import random

import pytest
import torch

from eagle_tui.pipeline.engine.kvcache import (
    BUCKET,
    FIRST_LENGTH,
    FIRST_ROWS,
    SPLIT_GAIN,
    SlotCache,
    best_split,
    round_up,
)
from eagle_tui.pipeline.engine.runner import ModelRunner


def _plain_logits(runner: ModelRunner, tokens: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return runner.model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=2e-4, rtol=1e-4)


@pytest.fixture
def fresh(runner: ModelRunner) -> ModelRunner:
    runner.release()
    return runner


def test_prefill_of_ragged_prompts(fresh: ModelRunner) -> None:
    prompts = [[5, 6, 7], [9], [11] * 40, [20, 21]]
    logits = fresh.prefill(0, prompts)
    for row, prompt in enumerate(prompts):
        assert _same(logits[row], _plain_logits(fresh, prompt))


def test_rows_join_leave_and_move(fresh: ModelRunner) -> None:
    """A random life of rows; every step's logits equal those of a run without a cache."""
    rng = random.Random(3)
    rows: list[list[int]] = []
    for _ in range(25):
        if len(rows) < 3 or (len(rows) < 7 and rng.random() < 0.3):
            new = [
                [rng.randrange(5, 1000) for _ in range(rng.randint(1, 70))]
                for _ in range(rng.randint(1, 3))
            ]
            logits = fresh.prefill(len(rows), new)
            for i, prompt in enumerate(new):
                assert _same(logits[i], _plain_logits(fresh, prompt))
            rows += [[*prompt, rng.randrange(5, 1000)] for prompt in new]
        elif rng.random() < 0.25:
            hole, last = rng.randrange(len(rows)), len(rows) - 1
            if hole != last:
                fresh.move_row(last, hole, len(rows[last]))
                rows[hole] = rows[last]
            rows.pop()
        else:
            logits = fresh.decode([row[-1] for row in rows], [len(row) - 1 for row in rows])
            for i, row in enumerate(rows):
                assert _same(logits[i], _plain_logits(fresh, row)), (i, len(row))
                row.append(rng.randrange(5, 1000))


def test_buffers_grow_and_are_given_back(fresh: ModelRunner) -> None:
    cache = fresh.cache
    assert cache.bytes == 0
    fresh.prefill(0, [[5] * 10])
    small = cache.bytes
    assert small == FIRST_ROWS * FIRST_LENGTH * fresh.facts.kv_bytes_per_token
    fresh.prefill(1, [[5] * (FIRST_LENGTH + 1)] * FIRST_ROWS)
    assert (cache.rows, cache.length) == (FIRST_ROWS * 3 // 2, FIRST_LENGTH * 3 // 2)
    assert cache.bytes == small * 9 // 4
    fresh.release()
    assert cache.bytes == 0


def test_a_step_looks_no_further_than_the_longest_live_row() -> None:
    cache = SlotCache(2, device=torch.device("cpu"), dtype=torch.float32)
    cache.begin_prefill(0, [3, 900])
    _, mask = cache.begin_decode([3])
    assert mask.shape == (1, 1, 1, BUCKET)
    assert cache.length == round_up(900, BUCKET)
    assert (mask[0, 0, 0] == 0).tolist() == [True] * 4 + [False] * (BUCKET - 4)


def test_a_new_row_does_not_see_the_old_ones_tokens() -> None:
    cache = SlotCache(2, device=torch.device("cpu"), dtype=torch.float32)
    cache.begin_prefill(0, [50])
    cache.begin_prefill(0, [2])
    _, mask = cache.begin_decode([2])
    assert int((mask == 0).sum()) == 3


def test_long_rows_in_front_are_attended_apart(fresh: ModelRunner) -> None:
    """Two long rows and sixteen short ones: the split is used, and changes nothing."""
    rng = random.Random(8)
    rows = [[rng.randrange(5, 1000) for _ in range(n)] for n in (600, 470, *range(20, 36))]
    fresh.prefill(0, rows)
    rows = [[*row, rng.randrange(5, 1000)] for row in rows]
    for _ in range(3):
        logits = fresh.decode([row[-1] for row in rows], [len(row) - 1 for row in rows])
        assert fresh.cache.split == (2, BUCKET)
        for row, line in zip(rows, logits, strict=True):
            assert _same(line, _plain_logits(fresh, row))
            row.append(rng.randrange(5, 1000))


@pytest.mark.parametrize(
    ("lengths", "span", "split"),
    [
        ([10], 64, None),
        ([64] * 30, 64, None),
        ([1000] + [60] * 30, 1024, (1, 64)),
        ([60] * 30 + [1000], 1024, None),  # a long row at the end: nothing to cut
        ([1000, 1000] + [300] * 4 + [60] * 30, 1024, (6, 64)),  # better than (2, 320)
        ([300] + [60] * 3, 320, None),  # spares too little
    ],
)
def test_best_split(lengths: list[int], span: int, split: tuple[int, int] | None) -> None:
    assert best_split(lengths, span) == split
    if split is not None:
        assert (len(lengths) - split[0]) * (span - split[1]) >= SPLIT_GAIN
