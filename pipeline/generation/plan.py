"""Which dataset sends next: budget, order and caps. Pure.

A dataset's request takes 1/concurrency of the budget, and the budget is 1. So one dataset alone has
its own concurrency in flight, and while its last requests run the next one fills the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagle_tui.rundir.desired import TotalCaps

NO_CAPS = TotalCaps()
PRIOR_WEIGHT = 8
"""So many responses the guess of a dataset's mean length counts as."""
PRIOR_TOKENS = 512
"""The guess, before anything is known."""
_SLACK = 1e-9
"""Room for the rounding of sums of fractions."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one dataset stands now."""

    concurrency: int
    in_flight: int
    ready: int
    """Prompts that may be sent now."""
    rows: int
    """Responses that are final."""
    tokens: int
    """Tokens of those responses."""
    max_new_tokens: int
    cap_tokens: int | None = None
    cap_samples: int | None = None
    skip: bool = False
    unsettled: int = 0
    """Answers that are here and not among `rows` yet. They take no part of the budget, but count
    for the caps as what is in flight does."""

    @property
    def reserved(self) -> int:
        """Responses that are still to be counted."""
        return self.in_flight + self.unsettled


def expected_tokens(standing: Standing) -> float:
    """Tokens that the next response will likely have: the mean so far, leaning on a guess while
    there are few (the short ones finish first)."""
    prior = min(PRIOR_TOKENS, standing.max_new_tokens)
    return (standing.tokens + PRIOR_WEIGHT * prior) / (standing.rows + PRIOR_WEIGHT)


def capped(standing: Standing) -> bool:
    """Has the dataset reached a cap by its final responses?"""
    return (standing.cap_samples is not None and standing.rows >= standing.cap_samples) or (
        standing.cap_tokens is not None and standing.tokens >= standing.cap_tokens
    )


def may_send(standing: Standing) -> bool:
    """May the dataset send one more, apart from the budget? What is in flight is reserved: exactly
    for the samples, by the expected length for the tokens."""
    if standing.skip or not standing.ready:
        return False
    if (
        standing.cap_samples is not None
        and standing.rows + standing.reserved >= standing.cap_samples
    ):
        return False
    if standing.cap_tokens is None:
        return True
    return standing.tokens + standing.reserved * expected_tokens(standing) < standing.cap_tokens


def total_capped(standings: Sequence[Standing], caps: TotalCaps) -> bool:
    """Have all datasets together reached a cap by their final responses?"""
    return (caps.samples is not None and sum(s.rows for s in standings) >= caps.samples) or (
        caps.tokens is not None and sum(s.tokens for s in standings) >= caps.tokens
    )


def _total_leaves_room(standings: Sequence[Standing], caps: TotalCaps) -> bool:
    """May one more be sent by the caps over all datasets? Reserved as for one dataset."""
    if caps.samples is not None and sum(s.rows + s.reserved for s in standings) >= caps.samples:
        return False
    if caps.tokens is None:
        return True
    return sum(s.tokens + s.reserved * expected_tokens(s) for s in standings) < caps.tokens


def budget_used(standings: Sequence[Standing]) -> float:
    """Share of the budget that is in flight; above 1 after a concurrency was lowered."""
    return sum(s.in_flight / s.concurrency for s in standings)


def choose(standings: Sequence[Standing], caps: TotalCaps = NO_CAPS) -> int | None:
    """Which dataset, in the order given, sends next; None: nobody may.

    A dataset that has something to send and does not fit is waited for: otherwise a later one with
    smaller shares would take each bit that becomes free, and the earlier one would never start.
    """
    if not _total_leaves_room(standings, caps):
        return None
    free = 1.0 + _SLACK - budget_used(standings)
    for number, standing in enumerate(standings):
        if may_send(standing):
            return number if free >= 1.0 / standing.concurrency else None
    return None


def exhausted(standing: Standing, left: int) -> bool:
    """Is there nothing more to do for the dataset, with `left` prompts waiting?"""
    return standing.reserved == 0 and (left == 0 or standing.skip or capped(standing))
