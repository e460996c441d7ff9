"""Keeping what was estimated of each phase, to hold it later against what came."""

from __future__ import annotations

from eagle_tui.protocol import Estimate, PhaseStatus, Status
from eagle_tui.supervisor.past import Past

MILESTONES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of a phase at which its estimate is kept: the first one, and when it was so far."""


def share_of(done: int | None, total: int | None) -> float:
    """How far a phase is, 0..1; 0 when it is not known."""
    return min(1.0, done / total) if done is not None and total else 0.0


def milestone(share: float) -> float:
    """The highest milestone that is reached."""
    return max(m for m in MILESTONES if m <= share)


class Estimates:
    """Looks at each snapshot; a supervisor that died goes on where it was. Of a phase that has not
    begun, the first estimate is kept."""

    def __init__(self, store: Past) -> None:
        self._store = store
        kept = store.estimates()
        self._reached = {e.phase: share_of(e.done, e.total) for e in kept if e.attempt}
        self._foretold = {e.phase for e in kept if not e.attempt}

    def look(self, status: Status) -> None:
        """Keep the estimates that are due."""
        for phase in status.phases:
            if phase.eta_s is None:
                continue
            ahead = phase.state == "pending" and not phase.attempt
            if ahead and phase.name not in self._foretold:
                self._foretold.add(phase.name)
                self._keep(phase, status.at)
            elif phase.state == "running" and self._due(phase):
                self._reached[phase.name] = share_of(phase.done, phase.total)
                self._keep(phase, status.at)

    def _keep(self, phase: PhaseStatus, at: float) -> None:
        assert phase.eta_s is not None
        self._store.add_estimate(
            Estimate(
                phase=phase.name,
                at=at,
                attempt=phase.attempt,
                elapsed_s=phase.elapsed_s,
                done=phase.done,
                total=phase.total,
                eta_s=phase.eta_s,
            )
        )

    def _due(self, phase: PhaseStatus) -> bool:
        before = self._reached.get(phase.name)
        if before is None:
            return True
        share = share_of(phase.done, phase.total)
        # A phase that was begun anew is estimated anew.
        return milestone(share) > milestone(before) or share < before / 2
