"""What the panels draw from: one snapshot with the moment it is looked at, and rates over time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from eagle_tui.protocol import DatasetStatus, Status

DIM_AGE_S = 3.0
"""Figures older than three polls are drawn dim."""
LABEL_AGE_S = 10.0
"""Figures older than ten polls carry their age."""
KEEP_S = 4 * 3600.0
"""How much of a series the screen keeps; the supervisor has the rest."""


@dataclass(frozen=True)
class Frame:
    """One snapshot as it is shown."""

    status: Status
    now: float
    """Unix time of this look."""
    age_s: float = 0.0
    """Seconds since the snapshot arrived."""
    problem: str = ""
    """Why there is no newer snapshot: the client's sentence."""

    @property
    def stale(self) -> bool:
        return bool(self.problem)


class Series:
    """One metric over time, oldest first, bounded by `KEEP_S`."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []

    def __len__(self) -> int:
        return len(self._points)

    def span(self, now: float) -> float:
        """Seconds from the first point until `now`; 0 when there is none."""
        return max(now - self._points[0][0], 0.0) if self._points else 0.0

    def extend(self, points: Iterable[tuple[float, float]]) -> None:
        """Add points (Unix time, value) from the supervisor's history, in any order."""
        known = {t for t, _ in self._points}
        for t, value in points:
            if t not in known:
                insort(self._points, (t, value))
        self._forget()

    def add(self, t: float, value: float) -> None:
        """Add the newest point. A time not after the last one (a clock set back) is left out."""
        if not self._points or t > self._points[-1][0]:
            self._points.append((t, value))
            self._forget()

    def buckets(self, end: float, step_s: float, columns: int) -> list[float | None]:
        """Means of `columns` buckets, the last complete one before `end` last.

        Buckets are aligned to the wall clock, so that columns shift by whole ones and never jitter.
        A bucket without a point is None.
        """
        last = end // step_s
        first = last - columns
        sums = [0.0] * columns
        counts = [0] * columns
        start = bisect_left(self._points, (first * step_s, float("-inf")))
        for t, value in self._points[start:]:
            index = int(t // step_s - first)
            if index >= columns:
                break
            sums[index] += value
            counts[index] += 1
        return [total / n if n else None for total, n in zip(sums, counts, strict=True)]

    def _forget(self) -> None:
        if self._points and self._points[0][0] < self._points[-1][0] - 1.1 * KEEP_S:
            cut = bisect_left(self._points, (self._points[-1][0] - KEEP_S, float("-inf")))
            del self._points[:cut]


@dataclass(frozen=True)
class Totals:
    """The dataset table's last row."""

    done: int
    prompts: int | None
    tokens: int
    cap_tokens: int | None
    rate_per_min: float | None
    mean: float | None
    truncated: int
    no_answer: int
    loop: int
    failed: int
    in_flight: int
    reasoning_share: float | None
    cap_samples: int | None = None
    p95: float | None = None
    eta_s: tuple[float, float, float] | None = None


def totals(datasets: Iterable[DatasetStatus], together: DatasetStatus | None = None) -> Totals:
    """Sums over the datasets whose responses are generated; means are weighted by responses.

    Native datasets are used as they are and have no rate, so they stay out of the weighted means
    but their prompts and tokens count. `together`: what the supervisor says of all of them, such as
    the caps over all; without one, the caps of the datasets add up when each has one.
    """
    rows = list(datasets)
    caps = [row.cap_tokens for row in rows if row.kind == "prompts"]
    rates = [row.rate_per_min for row in rows if row.rate_per_min is not None]
    prompts = [row.prompts for row in rows if row.prompts is not None]
    return Totals(
        done=sum(row.done for row in rows),
        prompts=sum(prompts) if prompts else None,
        tokens=sum(row.tokens for row in rows),
        cap_tokens=(together.cap_tokens if together else None)
        or (sum(cap for cap in caps if cap) if caps and all(caps) else None),
        rate_per_min=sum(rates) if rates else None,
        mean=_weighted((row.tokens_mean, row.done) for row in rows),
        truncated=sum(row.truncated for row in rows),
        no_answer=sum(row.no_answer for row in rows),
        loop=sum(row.loop for row in rows),
        failed=sum(row.failed for row in rows),
        in_flight=sum(row.in_flight for row in rows),
        reasoning_share=_weighted(
            (row.reasoning_share, row.done) for row in rows if row.kind == "prompts"
        ),
        cap_samples=together.cap_samples if together else None,
        p95=together.tokens_p95 if together else None,
        eta_s=together.eta_s if together else None,
    )


def _weighted(pairs: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in pairs if value is not None and weight > 0]
    weight = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weight if weight else None
