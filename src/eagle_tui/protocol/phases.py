"""Snapshots of phases: state, last exit, estimates."""

from __future__ import annotations

from .base import Frozen, PhaseState


class PhaseExit(Frozen):
    """How the last attempt of a phase that is over ended."""

    attempt: int
    outcome: str
    """done, stopped, failed, refused, or died (without a word)."""
    at: float
    code: int | None = None
    """Exit code; null: it was killed, or nobody was there to see."""
    signal: str | None = None
    """Name of the signal that killed it, such as SIGKILL."""
    reason: str = ""

    @property
    def words(self) -> str:
        """For a person: `attempt 2 died: killed by SIGKILL`."""
        how = f"killed by {self.signal}" if self.signal else ""
        how = how or ("" if self.code is None else f"exit code {self.code}")
        return f"attempt {self.attempt} {self.outcome}" + (f": {how}" if how else "")


class PhaseStatus(Frozen):
    name: str
    state: PhaseState
    reason: str = ""
    attempt: int = 0
    done: int | None = None
    total: int | None = None
    unit: str = ""
    elapsed_s: float | None = None
    eta_s: tuple[float, float, float] | None = None
    figures: dict[str, float | None] = {}
    """What the phase measures of itself, such as loss, accept, tok_s, data_wait."""
    last_exit: PhaseExit | None = None
    """How the newest attempt that is over ended; null while none is."""


class Estimate(Frozen):
    """What was estimated of a phase at some moment of it, to hold against what came."""

    phase: str
    at: float
    attempt: int
    elapsed_s: float | None = None
    """Seconds that the phase had run then."""
    done: int | None = None
    total: int | None = None
    eta_s: tuple[float, float, float]
    """Low, middle and high estimate of the seconds left then."""
