"""What the panels draw from: one snapshot with the moment it is looked at, and rates over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eagle_tui.protocol import DatasetStatus, Status

LABEL_AGE_S = 10.0
"""Figures older than ten polls carry their age."""


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
