"""What the event logs of the workers say of one dataset, added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eagle_tui import lengths
from eagle_tui.eta import RateWindow
from eagle_tui.lengths import Expected
from eagle_tui.protocol import HISTOGRAM_EDGES, LengthFigures

SHARES = (0.5, 0.9, 0.95, 0.99)
"""Of the responses: which quantiles of their lengths are told."""
FINE = 500
"""While responses come, quantiles and means are counted anew when there is one in so many more:
less shows in no figure that is told, and sorting thousands of lengths takes milliseconds."""
BUCKET_S = 60.0
BUCKETS = 60


def sum_rate() -> RateWindow:
    """The rate of a sum over responses: `retry` takes some away, which is no negative speed."""
    return RateWindow(counter=False)


@dataclass
class Bucket:
    """Responses of one minute."""

    lengths: Counter[int] = field(default_factory=Counter)
    reasoned: int = 0
    reasoning_tokens: int = 0

    def add(self, other: Bucket) -> None:
        """Take another one's responses in."""
        self.lengths.update(other.lengths)
        self.reasoned += other.reasoned
        self.reasoning_tokens += other.reasoning_tokens


class LastHour:
    """Responses by the minute in which they finished (Unix time): bounded, however many come."""

    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._added = 0

    def version(self, now: float) -> tuple[int, int]:
        """While this stays the same, so does what is told of the total: where there are many, it is
        counted anew each minute."""
        return min(self._added, FINE), int(now // BUCKET_S)

    def add(self, at: float, tokens: int, reasoning_tokens: int) -> None:
        """One response."""
        self._added += 1
        minute = int(at // BUCKET_S)
        bucket = self._buckets.get(minute)
        if bucket is None:
            bucket = self._buckets[minute] = Bucket()
            # Those that were begun first go, not those of the past: clocks are set back.
            if len(self._buckets) > BUCKETS:
                del self._buckets[next(iter(self._buckets))]
        bucket.lengths[tokens] += 1
        bucket.reasoned += reasoning_tokens > 0
        bucket.reasoning_tokens += reasoning_tokens

    def total(self, now: float) -> Bucket:
        """All of the last hour."""
        found, minute = Bucket(), int(now // BUCKET_S)
        for then, bucket in self._buckets.items():
            if minute - BUCKETS < then <= minute:
                found.add(bucket)
        return found


class LengthSummary(NamedTuple):
    """Mean and quantiles (SHARES) of lengths; None when there are none."""

    mean: float | None
    quantiles: list[float] | None
    histogram: tuple[int, ...] = ()
    """By HISTOGRAM_EDGES."""


@dataclass
class DatasetFigures:
    """One dataset, over all attempts."""

    prompts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    reasoned: int = 0
    reasoning_tokens: int = 0
    hour: LastHour = field(default_factory=LastHour)
    in_flight: int = 0
    begun: Counter[int] = field(default_factory=Counter)
    """Responses in flight or held, by their tokens so far, as the worker last told."""
    results: RateWindow = field(default_factory=sum_rate)
    token_rate: RateWindow = field(default_factory=sum_rate)
    stored: int = field(init=False)
    """Responses that are stored: what is done without the dead letters. Counted along, since it is
    asked for many times a second and there are thousands of lengths."""
    told_hour: tuple[tuple[int, int], LengthFigures | None] | None = None
    """The last hour as it was told, with the version of it."""
    _summary: tuple[int, LengthSummary] | None = None
    """With how many were stored then."""
    _expected: tuple[int, int, Counter[int], Expected] | None = None

    def __post_init__(self) -> None:
        self.stored = sum(self.lengths.values())

    def summary(self, *, exact: bool = False) -> LengthSummary:
        """Mean and quantiles of the lengths, counted anew when there are others: with thousands of
        different lengths that takes milliseconds, and most datasets stand still. `exact`: of every
        response, as where no more come; else up to one in FINE may be missing."""
        if self._summary is None or self._others(self._summary[0], exact):
            found = lengths.quantiles(self.lengths, SHARES)
            bars = lengths.histogram(self.lengths, HISTOGRAM_EDGES)
            self._summary = self.stored, LengthSummary(lengths.mean(self.lengths), found, bars)
        return self._summary[1]

    def expected(self, longest: int) -> Expected:
        """What the lengths lead to expect; worked out when there are others, as in `summary`, or
        other ones are begun."""
        known = self._expected
        if known is None or self._others(known[0], False) or known[1:3] != (longest, self.begun):
            found = lengths.expected(self.lengths, self.begun, longest)
            known = self._expected = self.stored, longest, self.begun, found
        return known[3]

    def _others(self, then: int, exact: bool) -> bool:
        """There are so many more responses than then that it shows."""
        return self.stored - then > (0 if exact else self.stored // FINE)

    @property
    def done(self) -> int:
        """Prompts with a final state."""
        return sum(self.states.values())

    def restart(self, event: dict[str, Any]) -> None:
        """Take the whole truth of a worker that opened the dataset."""
        self.states = Counter(event.get("states") or {})
        self.tokens = int(event.get("tokens", 0))
        self.lengths = lengths.from_json(event.get("lengths") or {})
        self.stored = sum(self.lengths.values())
        self._summary = self._expected = None
        self.reasoned = int(event.get("reasoned", 0))
        self.reasoning_tokens = int(event.get("reasoning_tokens", 0))
        self.begun = Counter()

    def add_up(self, parts: Collection[DatasetFigures]) -> None:
        """Be the sum of these, as far as workers tell it at their start."""
        self.states = sum((f.states for f in parts), Counter())
        self.lengths = sum((f.lengths for f in parts), Counter())
        self.stored = sum(f.stored for f in parts)
        self._summary = self._expected = None
        self.tokens = sum(f.tokens for f in parts)
        self.reasoned = sum(f.reasoned for f in parts)
        self.reasoning_tokens = sum(f.reasoning_tokens for f in parts)

    def add(self, event: dict[str, Any]) -> None:
        """Take one prompt's final state in."""
        self.states[event["state"]] += 1
        if not event.get("stored", event["state"] not in ("failed", "over_context")):
            return
        tokens, reasoning = int(event.get("ct", 0)), int(event.get("rt") or 0)
        self.tokens += tokens
        self.lengths[tokens] += 1
        self.stored += 1
        self.reasoned += reasoning > 0
        self.reasoning_tokens += reasoning
        self.hour.add(float(event["at"]), tokens, reasoning)
