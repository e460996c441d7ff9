"""How long the phases take that have not begun, and so the run. Pure.

A phase that was at work before, in an earlier attempt, takes as long as its pace then says: the
start of its worker (loading a model may take minutes), and its items at the rate that was measured.
A first merge is estimated by its rows. Of other phases nothing is known before they have begun:
that stays unknown, and the run's time is told without them, by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from eagle_tui import eta
from eagle_tui.protocol import PhaseStatus

LEAST_S = 5.0
"""An attempt that was at work for a shorter time tells nothing of its pace."""
SPREAD = 0.3
"""Relative error of a pace that was measured in another attempt."""
MERGE_START_S = 5.0
MERGE_ROWS_S = 500.0
MERGE_SPREAD = math.log(4) / eta.Z80
"""A merge has made 100 to some thousand rows a second, by their length and by the machine: a factor
of four to each side."""


@dataclass(frozen=True)
class Pace:
    """How an attempt went."""

    start_s: float
    """Seconds until its first item."""
    rate: float
    """Items a second after that."""
    left: float
    """Items that it left undone; those of a finished phase are all to be done again."""


class Timeline:
    """An attempt's progress by the times in its event log, which outlive the supervisor."""

    def __init__(self, started: float | None = None) -> None:
        """`started`: Unix time at which the attempt began."""
        self._started = started
        self._first: float | None = None
        self._last = 0.0
        self._done = 0
        self._grown = 0
        self._total = 0

    def progress(self, at: float, event: dict[str, Any]) -> None:
        """It told how far it is."""
        done, total = event.get("done"), event.get("total")
        if not isinstance(done, int) or not isinstance(total, int):
            return
        if self._first is None or at < self._last:  # a clock that was set back
            self._first, self._grown = at, 0
        else:
            # A phase that goes over its items again and again counts from zero each time.
            self._grown += max(0, done - self._done) if done >= self._done else done
        self._last, self._done, self._total = at, done, total

    def pace(self) -> Pace | None:
        """None when it was too short, or told nothing."""
        if self._first is None or self._last - self._first < LEAST_S or not self._grown:
            return None
        start_s = max(0.0, self._first - self._started) if self._started is not None else 0.0
        rate = self._grown / (self._last - self._first)
        items = max(self._total, self._grown)
        left = self._total - self._done
        return Pace(start_s, rate, float(left if left > 0 else items))


def not_begun(phase: str, pace: Pace | None, rows: float | None) -> eta.Range | None:
    """Seconds that a phase will take which waits: by the pace of an earlier attempt, or, of merge,
    by the rows that are expected (None: not known)."""
    if pace is not None:
        return eta.around(pace.start_s + pace.left / pace.rate, SPREAD)
    if phase == "merge" and rows is not None:
        return eta.around(MERGE_START_S + rows / MERGE_ROWS_S, MERGE_SPREAD)
    return None


def run_left(phases: Iterable[PhaseStatus]) -> tuple[eta.Range | None, tuple[str, ...]]:
    """The time that the phases left take together, and those of them that are not in it since
    nothing is known of them. Without the phase that is next, or without generate, which takes most
    of it, nothing is known at all."""
    left = [p for p in phases if p.state != "done"]
    unknown = tuple(p.name for p in left if p.eta_s is None)
    if not left or left[0].name in unknown or "generate" in unknown:
        return None, unknown
    return eta.sum_of(p.eta_s for p in left if p.eta_s is not None), unknown
