"""The sampler against distributions worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
import torch

from eagle_tui.pipeline.engine import sampler
from eagle_tui.pipeline.engine.sampler import sample
from eagle_tui.pipeline.engine.sampling import SamplingParams

#: Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625 of tokens 3, 1, 4, 0, 2.
PROBS = torch.tensor([0.0625, 0.25, 0.0625, 0.5, 0.125])


@dataclass
class Row:
    """A running request, as far as the sampler looks."""

    params: SamplingParams
    output_ids: list[int] = field(default_factory=list)
    rng: Random = field(default_factory=lambda: Random(0))
    stop_ids: frozenset[int] = frozenset()


def _shares(draws: int = 4000, output: tuple[int, ...] = (), **params: Any) -> dict[int, float]:
    rows = [Row(SamplingParams(**params), list(output), Random(i)) for i in range(draws)]
    tokens = sample(PROBS.log().expand(draws, -1), rows)
    return {token: count / draws for token, count in Counter(tokens).items()}


def _close(shares: dict[int, float], expected: dict[int, float]) -> bool:
    return shares.keys() == expected.keys() and all(
        abs(shares[token] - expected[token]) < 0.04 for token in expected
    )


def test_plain_sampling_follows_the_distribution() -> None:
    assert _close(_shares(), {3: 0.5, 1: 0.25, 4: 0.125, 0: 0.0625, 2: 0.0625})


def test_temperature_sharpens() -> None:
    weights = PROBS**2
    expected = (weights / weights.sum()).tolist()
    assert _close(_shares(temperature=0.5), dict(enumerate(expected)))


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"top_k": 2}, {3: 2 / 3, 1: 1 / 3}),
        ({"top_k": 1}, {3: 1.0}),
        ({"temperature": 0}, {3: 1.0}),
        ({"top_p": 0.6}, {3: 2 / 3, 1: 1 / 3}),  # 0.5 is not enough: the next one joins
        ({"top_p": 0.4}, {3: 1.0}),
        ({"top_p": 1e-9}, {3: 1.0}),
        ({"min_p": 0.25}, {3: 4 / 7, 1: 2 / 7, 4: 1 / 7}),  # at least 0.125
        ({"top_k": 3, "top_p": 0.8, "min_p": 0.3}, {3: 2 / 3, 1: 1 / 3}),
    ],
)
def test_filters(params: dict[str, Any], expected: dict[int, float]) -> None:
    assert _close(_shares(**params), expected)


def test_greedy_and_sampled_rows_share_a_step() -> None:
    logits = torch.stack([PROBS.log(), PROBS.flip(0).log(), PROBS.log()])
    greedy, free = SamplingParams(temperature=0), SamplingParams(top_k=1)
    rows = [Row(greedy), Row(greedy), Row(free)]
    assert sample(logits, rows) == [3, 1, 3]


def test_a_seed_gives_the_same_tokens_in_any_company() -> None:
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(1))
    params = SamplingParams(top_p=0.95)
    alone = [sample(logits[i : i + 1], [Row(params, rng=Random(i))])[0] for i in range(6)]
    together = sample(logits, [Row(params, rng=Random(i)) for i in range(6)])
    assert alone == together


def test_large_vocabulary_filters_as_a_full_sort_would(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(40, 3000, generator=torch.Generator().manual_seed(2)) * 2
    params = [SamplingParams(top_p=p, top_k=k) for p in (0.3, 0.95, 1.0) for k in (-1, 5, 2000)]
    rows = [[Row(params[i % len(params)], rng=Random(i)) for i in range(40)] for _ in range(2)]
    few = sample(logits, rows[0])
    monkeypatch.setattr(sampler, "CANDIDATES", 3000)
    assert few == sample(logits, rows[1])


def test_frequency_and_presence_penalty() -> None:
    logits = torch.zeros(1, 4)
    row = Row(SamplingParams(frequency_penalty=0.5, presence_penalty=1.0), output_ids=[2, 2, 1])
    assert sampler._adjust(logits, [row]).tolist() == [[0.0, -1.5, -2.0, 0.0]]
    assert logits.tolist() == [[0.0, 0.0, 0.0, 0.0]]  # the model's own tensor is left alone


def test_repetition_penalty_pushes_both_signs_down() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0]])
    row = Row(SamplingParams(repetition_penalty=2.0), output_ids=[0, 1])
    assert sampler._adjust(logits, [row]).tolist() == [[1.0, -4.0, 1.0]]


def test_min_new_tokens_excludes_the_stops_until_then() -> None:
    logits = PROBS.log()[None]
    params = SamplingParams(temperature=0, min_new_tokens=2)
    early = Row(params, output_ids=[9], stop_ids=frozenset({3}))
    late = Row(params, output_ids=[9, 9], stop_ids=frozenset({3}))
    assert sample(logits, [early]) == [1]
    assert sample(logits, [late]) == [3]


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-53])
def test_the_ends_of_the_unit_interval_stay_inside(uniform: float) -> None:
    class Fixed(Random):
        def random(self) -> float:
            return uniform

    row = Row(SamplingParams(top_k=3), rng=Fixed())
    assert sample(PROBS.log()[None], [row])[0] in {3, 1, 4}
    plain = Row(SamplingParams(), rng=Fixed())
    assert 0 <= sample(PROBS.log()[None], [plain])[0] < 5
