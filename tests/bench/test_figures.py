"""Sums, intervals and words."""

from __future__ import annotations

import pytest

from eagle_tui.pipeline.benchmark.figures import (
    Accept,
    Speedup,
    Timed,
    paired_speedup,
    speeds_by_dataset,
)
from eagle_tui.pipeline.benchmark.verdict import hints, verdict


def test_accept_length_is_tokens_over_rounds_and_steps_are_conditional() -> None:
    total = Accept()
    total.add(tokens=4 + 1 + 3, accepted=[3, 0, 2], proposed=[3, 3, 3])
    other = Accept()
    other.add(tokens=1, accepted=[1], proposed=[1])  # ended inside its proposals
    total.merge(other)
    assert total.length == 9 / 4
    # Step 1: tried in 4 rounds, taken in 3; step 2: tried in 2, taken in 2; step 3: 2, 1.
    assert total.conditional(3) == [0.75, 1.0, 0.5]
    assert Accept().length is None and Accept().conditional(2) == [None, None]


def runs(seconds: list[float], tokens: int = 100) -> list[Timed]:
    return [Timed(str(i), "a", tokens, s) for i, s in enumerate(seconds)]


def test_speedup_is_paired() -> None:
    # Prompts differ tenfold in time, the gain is the same for each: the interval is narrow.
    base = runs([1.0, 10.0, 3.0, 7.0, 0.5] * 8)
    same = runs([t.seconds / 1.38 for t in base])
    gain = paired_speedup(base, same)
    assert gain.mean == pytest.approx(1.38) and gain.high - gain.low < 1e-9
    noisy = runs([t.seconds * (0.5 if i % 2 else 1.5) for i, t in enumerate(base)])
    wide = paired_speedup(base, noisy)
    assert wide.low < 1 < wide.high
    assert paired_speedup(base, noisy) == wide  # the draws are seeded
    with pytest.raises(ValueError, match="same prompts"):
        paired_speedup(base, same[:-1])


def test_copies_of_a_prompt_make_the_interval_no_narrower() -> None:
    base = runs([1.0, 10.0, 3.0, 7.0, 0.5])
    draft = runs([0.4, 9.0, 2.0, 8.0, 0.2])

    def again(times: list[Timed]) -> list[Timed]:
        return [
            Timed(t.id if n == 0 else f"{t.id}#{n}", t.dataset, t.tokens, t.seconds)
            for n in range(20)
            for t in times
        ]

    once, often = paired_speedup(base, draft), paired_speedup(again(base), again(draft))
    assert often.mean == pytest.approx(once.mean)
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize(
    ("gain", "speeds", "accept", "identical", "words"),
    [
        (
            Speedup(1.38, 1.31, 1.45),
            (65.2, 90.0),
            2.4,
            True,
            "a gain of 38 % (31–45) at concurrency 1, steps 3: 90.0 against 65.2 tok/s; "
            "accept length 2.40.",
        ),
        (
            Speedup(0.914, 0.89, 0.94),
            (90.0, 82.3),
            2.1,
            True,
            "82.3 against 90.0 tok/s: a loss of 9 % (6–11) at concurrency 1, steps 3; "
            "accept length 2.10.",
        ),
        (
            Speedup(1.02, 0.97, 1.08),
            (90.0, 91.8),
            1.4,
            None,
            "91.8 against 90.0 tok/s: neither a gain nor a loss (-3 to +8 %) at concurrency 1, "
            "steps 3; accept length 1.40.",
        ),
        (
            Speedup(0.7, 0.68, 0.72),
            (90.0, 63.0),
            1.01,
            True,
            "63.0 against 90.0 tok/s: a loss of 30 % (28–32) at concurrency 1, steps 3; accept "
            "length 1.01, as if there were no drafter: something is set up wrongly.",
        ),
        (
            Speedup(1.38, 1.31, 1.45),
            (65.2, 90.0),
            None,
            False,
            "a gain of 38 % (31–45) at concurrency 1, steps 3: 90.0 against 65.2 tok/s; "
            "the output differs from that without the drafter.",
        ),
    ],
)
def test_verdict_in_words(
    gain: Speedup,
    speeds: tuple[float, float],
    accept: float | None,
    identical: bool | None,
    words: str,
) -> None:
    found = verdict(
        gain,
        baseline_tok_s=speeds[0],
        drafter_tok_s=speeds[1],
        accept=accept,
        concurrency=1,
        steps=3,
        greedy_identical=identical,
    )
    assert found == words


def test_hints_depend_on_the_accept_length() -> None:
    assert any("EAGLE3" in hint for hint in hints(1.0))
    assert any("shifted by one" in hint for hint in hints(1.2))
    assert hints(2.0) == () and hints(None) == ()


def test_a_dataset_has_its_own_interval_and_one_without_tokens_none() -> None:
    def timed(id: str, dataset: str, tokens: int, seconds: float) -> Timed:
        return Timed(id, dataset, tokens, seconds)

    base = [timed("1", "a", 100, 1.0), timed("2", "a", 50, 1.0), timed("3", "b", 0, 0.1)]
    draft = [timed("1", "a", 100, 0.5), timed("2", "a", 50, 0.8), timed("3", "b", 0, 0.1)]
    told = speeds_by_dataset(base, draft)
    assert list(told) == ["a", "b"] and "speedup" not in told["b"]
    assert told["a"]["baseline_tok_s"] == 75.0
    assert told["a"]["speedup"]["mean"] == pytest.approx(2 / 1.3, abs=1e-3)
    assert told["a"]["speedup"]["low"] == pytest.approx(1.25, abs=1e-3)
    assert told["a"]["speedup"]["high"] == pytest.approx(2.0, abs=1e-3)
