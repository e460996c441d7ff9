"""Estimates held against what came. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eagle_tui import fmt
from eagle_tui.protocol import Estimate, Mark, PhaseStatus


@dataclass(frozen=True)
class Judged:
    """One estimate of a phase, as the whole time that it foretold."""

    at: float
    share: float | None
    """How far the phase was then, 0..1."""
    total_s: tuple[float, float, float]
    """Low, middle and high of the phase's whole time."""
    actual_s: float | None
    """What it came to; None while it runs."""

    @property
    def verdict(self) -> str:
        """`inside the range`, or by how much it was too low or too high."""
        if self.actual_s is None:
            return ""
        low, middle, high = self.total_s
        if low <= self.actual_s <= high:
            return "inside the range"
        off = abs(self.actual_s - middle) / middle if middle > 0 else 0.0
        return f"{off:.0%} too {'low' if self.actual_s > high else 'high'}"


def judged(phase: PhaseStatus, estimates: Iterable[Estimate]) -> list[Judged]:
    """The estimates of the phase's present go, the oldest first."""
    actual = phase.elapsed_s if phase.state == "done" else None
    found = []
    for e in _last_go([e for e in estimates if e.phase == phase.name]):
        past = e.elapsed_s or 0.0
        low, middle, high = (past + left for left in e.eta_s)
        share = fmt.share(e.done, e.total)
        found.append(Judged(e.at, share, (low, middle, high), actual))
    return found


def first_against_now(phase: PhaseStatus, estimates: Iterable[Estimate]) -> str:
    """`first 17–26 h, took 21h 03m: inside the range`; empty when nothing was estimated."""
    found = judged(phase, estimates)
    if not found:
        return ""
    first = found[0]
    told = f"first {fmt.eta(first.total_s)}"
    if first.actual_s is not None:
        return f"{told}, took {fmt.duration(first.actual_s)}: {first.verdict}"
    if phase.eta_s is not None and phase.elapsed_s is not None:
        low, middle, high = (phase.elapsed_s + left for left in phase.eta_s)
        return f"{told}, now {fmt.eta((low, middle, high))}"
    return told


def paused_s(marks: Iterable[Mark], since: float, until: float) -> float:
    """Seconds within [since, until] between a pause and the resume after it."""
    total, began = 0.0, None
    for mark in marks:
        if mark.kind == "pause" and began is None:
            began = mark.at
        elif mark.kind == "resume" and began is not None:
            total += max(0.0, min(mark.at, until) - max(began, since))
            began = None
    if began is not None:
        total += max(0.0, until - max(began, since))
    return total


def _last_go(estimates: Sequence[Estimate]) -> Sequence[Estimate]:
    """Those since the phase was last begun anew."""
    start = 0
    for i in range(1, len(estimates)):
        before, now = estimates[i - 1].done, estimates[i].done
        if before is not None and now is not None and now < before / 2:
            start = i
    return estimates[start:]
