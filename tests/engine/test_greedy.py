"""Greedy output equals transformers' own ``generate``, whoever shares the batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from eagle_tui.pipeline.engine.engine import PauseMode
from eagle_tui.pipeline.engine.runner import ModelRunner


def _reference(runner: ModelRunner, prompt: list[int], tokens: int) -> list[int]:
    """New tokens of ``generate(do_sample=False)``, run to the length."""
    with torch.inference_mode():
        out = runner.model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            eos_token_id=None,
            pad_token_id=0,
        )
    return out[0, len(prompt) :].tolist()


def _work(seed: int, count: int) -> list[tuple[list[int], int]]:
    rng = random.Random(seed)
    return [
        ([rng.randrange(5, 1000) for _ in range(rng.randint(1, 150))], rng.randint(1, 60))
        for _ in range(count)
    ]


def _body(prompt: list[int], tokens: int, rid: str, **more: Any) -> dict[str, Any]:
    params = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    return {"input_ids": prompt, "rid": rid, "sampling_params": params | more}


@pytest.mark.parametrize("rows", [1, 3, 16])
def test_equal_for_any_number_of_rows(
    start: Callable[..., Any], runner: ModelRunner, rows: int
) -> None:
    work = _work(seed=rows, count=10)
    harness = start(max_running_requests=rows)
    for i, (prompt, tokens) in enumerate(work):
        harness.submit(_body(prompt, tokens, f"r{i:03d}"))
    done = harness.finals(len(work))
    for i, (prompt, tokens) in enumerate(work):
        assert list(done[f"r{i:03d}"].output_ids) == _reference(runner, prompt, tokens), i


def test_equal_beside_sampled_rows(start: Callable[..., Any], runner: ModelRunner) -> None:
    harness = start(max_running_requests=8)
    work = _work(seed=77, count=8)
    for i, (prompt, tokens) in enumerate(work):
        noise = {} if i % 2 else {"temperature": 1.3, "top_p": 0.9, "frequency_penalty": 0.5}
        harness.submit(_body(prompt, tokens, f"r{i:03d}", **noise))
    done = harness.finals(len(work))
    for i, (prompt, tokens) in enumerate(work):
        if i % 2:
            assert list(done[f"r{i:03d}"].output_ids) == _reference(runner, prompt, tokens), i


def test_equal_across_a_retraction_and_a_full_pool(
    start: Callable[..., Any], runner: ModelRunner
) -> None:
    """A pool for some three of the requests: they are retracted, recomputed, and still exact."""
    harness = start(max_total_tokens=290, max_running_requests=16, schedule_conservativeness=0.0)
    work = [(prompt[:40], 100) for prompt, _ in _work(seed=5, count=6)]
    for i, (prompt, tokens) in enumerate(work):
        harness.submit(_body(prompt, tokens, f"r{i:03d}"))
    done = harness.finals(len(work))
    for i, (prompt, tokens) in enumerate(work):
        assert list(done[f"r{i:03d}"].output_ids) == _reference(runner, prompt, tokens), i
    assert harness.engine.counters.retractions > 0
    assert sum(update.retractions for update in done.values()) > 0


@pytest.mark.parametrize("mode", [PauseMode.IN_PLACE, PauseMode.RETRACT])
def test_equal_across_a_pause(
    start: Callable[..., Any], runner: ModelRunner, mode: PauseMode
) -> None:
    harness = start()
    work = [(prompt, 80) for prompt, _ in _work(seed=9, count=5)]
    for i, (prompt, tokens) in enumerate(work):
        harness.submit(_body(prompt, tokens, f"r{i:03d}", stream_interval=1) | {"stream": True})
    for _ in range(40):
        assert harness.news.get(timeout=30).finish is None
    harness.engine.pause(mode)
    harness.engine.resume()
    done = harness.finals(len(work))
    for i, (prompt, tokens) in enumerate(work):
        update = done[f"r{i:03d}"]
        assert list(update.output_ids) == _reference(runner, prompt, tokens), i
        assert update.retractions == (1 if mode is PauseMode.RETRACT else 0)


def test_long_rows_grow_the_cache(start: Callable[..., Any], runner: ModelRunner) -> None:
    harness = start()
    prompt = [random.Random(1).randrange(5, 1000) for _ in range(240)]
    harness.submit(_body(prompt, 300, "long"))
    harness.submit(_body(prompt[:5], 20, "short"))
    done = harness.finals(2)
    assert list(done["long"].output_ids) == _reference(runner, prompt, 300)
    assert list(done["short"].output_ids) == _reference(runner, prompt[:5], 20)
