"""What the engine has counted, and frozen pictures of it.

`Counters` belongs to the model thread; other threads read single numbers of it, which is safe in
CPython. A `Load` is published as a whole and never changes.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field


@dataclass
class Histogram:
    """A Prometheus histogram: ``counts`` has one more cell than there are ``bounds``."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class DecodeMoments:
    """Sums over decode steps of the batch size b and the step time u in microseconds."""

    steps: float = 0.0
    b: float = 0.0
    us: float = 0.0
    bb: float = 0.0
    b_us: float = 0.0
    tokens: float = 0.0

    def add(self, batch: int, seconds: float) -> None:
        """Count one decode step, which makes one token per row."""
        micros = seconds * 1e6
        self.steps += 1
        self.b += batch
        self.us += micros
        self.bb += batch * batch
        self.b_us += batch * micros
        self.tokens += batch

    def as_list(self) -> list[float] | None:
        """``decode_moments`` of /v1/loads; null before the first step."""
        if not self.steps:
            return None
        return [self.steps, self.b, self.us, self.bb, self.b_us, self.tokens]


#: Seconds; SGLang's defaults.
FIRST_TOKEN_BOUNDS = (
    0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400,
)  # fmt: skip
LATENCY_BOUNDS = (
    0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800,
    2400,
)  # fmt: skip


@dataclass
class Counters:
    """Everything that only grows, and the gauges that go with it. Those that SGLang splits are
    kept by whether the request was streamed."""

    prefill_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_tokens: int = 0
    requests: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    prompt_tokens: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    generated_tokens: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    aborts: int = 0
    retractions: int = 0
    running: int = 0
    queued: int = 0
    used_tokens: int = 0
    retracted_waiting: int = 0
    new_token_ratio: float = 0.0
    gen_throughput: float = 0.0
    idle_seconds: float = 0.0
    moments: DecodeMoments = field(default_factory=DecodeMoments)
    time_to_first_token: dict[bool, Histogram] = field(
        default_factory=lambda: {stream: Histogram(FIRST_TOKEN_BOUNDS) for stream in (False, True)}
    )
    latency: dict[bool, Histogram] = field(
        default_factory=lambda: {stream: Histogram(LATENCY_BOUNDS) for stream in (False, True)}
    )


@dataclass(frozen=True)
class Load:
    """The ``core`` and ``queues`` part of /v1/loads at one moment (``timestamp``: Unix seconds)."""

    timestamp: float
    running: int
    waiting: int
    waiting_tokens: int
    used_tokens: int
    retracted: int
    prefill_tokens: int
    prefill_us: int
    gen_throughput: float
    decode_moments: tuple[float, ...] | None
