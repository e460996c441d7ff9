"""The mode of the phase, from what the operator wants and what is possible. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagle_tui.rundir.desired import PauseMode
from eagle_tui.rundir.events import FlowMode


@dataclass(frozen=True, slots=True)
class Flow:
    """What the phase does now, and why."""

    mode: FlowMode
    reason: str
    sending: bool
    """May new requests be sent?"""


def decide(
    *,
    pause: PauseMode,
    finish: bool,
    stopping: bool,
    in_flight: int,
    unsaved: bool,
    disk: str,
    servers: str,
    retry: bool = False,
) -> Flow:
    """The mode. `disk`, `servers`: why nothing can be written or sent, empty when it can;
    `unsaved`: results wait to be forced to disk, so that a pause is not complete yet; `retry`: an
    order to retry waits for the moment in which nothing is in flight."""
    if stopping:
        return Flow("draining", "asked to stop", False)
    if finish:
        reason = disk or f"advance: {in_flight:,} requests still in flight"
        return Flow("finishing", reason, False)
    if pause != "no":
        if in_flight or (unsaved and not disk):
            how = {"hold": "held", "drain": "finishing", "abort": "dropped"}[pause]
            return Flow("draining", disk or f"{in_flight:,} requests being {how}", False)
        return Flow("paused", disk or f"paused by the operator ({pause})", False)
    if disk:
        return Flow("paused", disk, False)
    if retry:
        return Flow("draining", f"retry: {in_flight:,} requests being held", False)
    if servers:
        return Flow("waiting", servers, False)
    return Flow("running", "", True)
