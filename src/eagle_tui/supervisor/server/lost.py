"""A server that ended while no supervisor was there: what became of it, and of its children."""

from __future__ import annotations

from eagle_tui import proc
from eagle_tui.supervisor.launches import LOST
from eagle_tui.supervisor.store import Attempt, Store
from eagle_tui.telemetry.diagnosis import Diagnosis


def settle(store: Store, attempt: Attempt, found: Diagnosis | None, wall: float) -> str:
    """Record how an attempt ended that nobody saw (`found`: what its log says), and kill what it
    left; gives what that was, as a sentence, or nothing."""
    reason = "ended while no supervisor was there"
    rule, remedy = LOST, ""
    if found is not None:
        reason, rule, remedy = f"{reason}: {found.sentence}", found.rule, found.remedy
    store.servers.diagnosed(attempt.token, rule, remedy)
    store.ended(attempt.token, wall, outcome="lost", reason=reason)
    orphans = proc.family(attempt.token, attempt.process)
    named = ", ".join(f"{proc.title(p)} (pid {p.pid})" for p in orphans)
    proc.kill(orphans)
    return f"processes that outlived it were killed: {named}" if orphans else ""
