"""What every snapshot is, and the words for states."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA = 1
"""Version of the socket's JSON. Grows when a field changes its meaning or goes away."""

PhaseState = Literal[
    "pending", "blocked", "running", "paused", "draining", "stalled", "failed", "done", "stale"
]

ServerState = Literal["stopped", "starting", "ready", "unready", "stopping", "failed", "attached"]

RetuneStep = Literal[
    "requested",
    "pausing",
    "stopping",
    "starting",
    "reverting",
    "ready",
    "resuming",
    "done",
    "rolled_back",
    "refused",
]
"""How far a change of a server's settings is; `reverting`: the settings before are started again.
The last three are ends."""

CommandState = Literal["requested", "accepted", "in_effect", "refused"]

Severity = Literal["info", "warning", "error"]

SampleState = Literal[
    "complete", "truncated", "no_answer", "loop", "aborted", "over_context", "failed"
]

DatasetState = Literal["pending", "running", "paused", "capped", "skipped", "done"]


class Frozen(BaseModel):
    """A snapshot: equal by value, never changed after it was made."""

    model_config = ConfigDict(frozen=True, extra="ignore")
