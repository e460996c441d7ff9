"""Snapshots of datasets and of stored responses."""

from __future__ import annotations

from typing import Literal

from .base import DatasetState, Frozen, SampleState


class LengthFigures(Frozen):
    """Lengths of responses in tokens."""

    responses: int
    tokens_mean: float
    tokens_p50: float
    tokens_p90: float
    tokens_p95: float
    tokens_p99: float
    reasoning_share: float
    reasoning_mean: float | None = None


HISTOGRAM_EDGES = tuple(round(16 * 2 ** (i / 2)) for i in range(25))
"""Lengths in tokens at which the bars of `DatasetStatus.histogram` end: 16, 23, 32, … 65,536."""


class DatasetStatus(Frozen):
    name: str
    kind: Literal["prompts", "native"] = "prompts"
    state: DatasetState = "pending"
    prompts: int | None = None
    complete: int = 0
    truncated: int = 0
    no_answer: int = 0
    loop: int = 0
    failed: int = 0
    """Every other final state (failed, aborted, over_context)."""
    in_flight: int = 0
    concurrency: int | None = None
    tokens: int = 0
    cap_tokens: int | None = None
    cap_samples: int | None = None
    rate_per_min: float | None = None
    tok_s: float | None = None
    tokens_mean: float | None = None
    tokens_p50: float | None = None
    tokens_p90: float | None = None
    tokens_p95: float | None = None
    tokens_p99: float | None = None
    reasoning_share: float | None = None
    """Share of the finished responses that hold reasoning."""
    reasoning_mean: float | None = None
    """Mean length of the reasoning, of those that hold any, in tokens."""
    hour: LengthFigures | None = None
    """The same figures over the last hour; null when nothing finished in it."""
    histogram: tuple[int, ...] = ()
    """Responses by length: how many below each of HISTOGRAM_EDGES and not below the one before it,
    and last those from the last edge on. Empty: none yet."""
    failures: dict[str, int] = {}
    """`failed` by its states: failed, aborted, over_context."""
    eta_s: tuple[float, float, float] | None = None

    @property
    def done(self) -> int:
        """Prompts whose state is final."""
        return self.complete + self.truncated + self.no_answer + self.loop + self.failed


class Sample(Frozen):
    """One stored response, for reading."""

    id: str
    dataset: str
    prompt: str
    """The last user turn, as text."""
    reasoning: str
    content: str
    state: SampleState
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    endpoint: str
    at: float
