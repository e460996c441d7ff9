"""What happened: events, marks, values over time."""

from __future__ import annotations

from .base import Frozen, Severity


class Event(Frozen):
    """One line of the run's history."""

    id: int
    at: float
    severity: Severity
    source: str
    """Which part says it: supervisor, a phase's name, a server's name, operator."""
    text: str


class Mark(Frozen):
    """A moment that charts show: something that changed what they show."""

    id: int
    at: float
    kind: str
    """retune, crash, hang, pause, phase, …"""
    text: str


class HistoryPoint(Frozen):
    t: float
    """Start of the bucket, Unix seconds."""
    mean: float
    low: float
    high: float


class History(Frozen):
    series: str
    step_s: float
    points: tuple[HistoryPoint, ...] = ()
