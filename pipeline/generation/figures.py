"""Counts of one dataset's responses. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from eagle_tui import lengths
from eagle_tui.protocol import SampleState


class Figures:
    """What is final in a dataset. Lengths are completion tokens of the stored responses."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.lengths: Counter[int] = Counter()
        self.tokens = 0
        self.rows = 0
        self.reasoned = 0
        self.reasoning_tokens = 0

    def add(
        self,
        state: SampleState | str,
        completion_tokens: int = 0,
        reasoning_tokens: int = 0,
        *,
        stored: bool = True,
    ) -> None:
        """Count one final state. Tokens count only for stored responses, not for dead letters."""
        self.states[state] += 1
        if not stored:
            return
        self.rows += 1
        self.tokens += completion_tokens
        self.lengths[completion_tokens] += 1
        self.reasoned += reasoning_tokens > 0
        self.reasoning_tokens += reasoning_tokens

    @property
    def final(self) -> int:
        """Prompts that have a final state."""
        return sum(self.states.values())

    def event(self) -> dict[str, Any]:
        """The counts as the `dataset` event tells them."""
        return {
            "states": dict(self.states),
            "tokens": self.tokens,
            "lengths": {str(n): count for n, count in sorted(self.lengths.items())},
            "reasoned": self.reasoned,
            "reasoning_tokens": self.reasoning_tokens,
        }

    def summary(self) -> dict[str, Any]:
        """The counts as a manifest tells them; null where there are no responses."""
        names = ("tokens_p50", "tokens_p90", "tokens_p95", "tokens_p99")
        found = lengths.quantiles(self.lengths, (0.5, 0.9, 0.95, 0.99))
        mean = lengths.mean(self.lengths)
        return {
            "states": dict(self.states),
            "tokens": self.tokens,
            "tokens_mean": None if mean is None else round(mean, 1),
            **(dict(zip(names, found, strict=True)) if found else dict.fromkeys(names)),
            "reasoned": self.reasoned,
            "reasoning_tokens": self.reasoning_tokens,
        }
