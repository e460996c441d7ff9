"""The whole of a run at one moment: the JSON of `eagle-tui status --json`."""

from __future__ import annotations

from typing import Any

from .base import SCHEMA, Frozen, Severity
from .commands import CommandStatus
from .datasets import DatasetStatus
from .machine import GpuStatus, HostStatus
from .phases import PhaseStatus
from .servers import ServerStatus


class RunStatus(Frozen):
    name: str
    dir: str
    target: str
    started: float | None = None
    elapsed_s: float | None = None
    """Seconds from `started` until now, or until the last phase was done, in which it was up."""
    down_s: float = 0.0
    """Seconds of that time in which nothing of it was up; they are not in elapsed_s."""
    eta_s: tuple[float, float, float] | None = None
    """Low, middle and high estimate of the seconds left, of all phases but those in eta_without."""
    eta_without: tuple[str, ...] = ()
    """Phases that are left and of whose time nothing is known."""


class SupervisorStatus(Frozen):
    pid: int | None = None
    state: str = "running"
    version: str = ""


class Alert(Frozen):
    rule: str
    severity: Severity
    sentence: str
    remedy: str
    since: float


class Status(Frozen):
    schema_: int = SCHEMA
    at: float
    seq: int = 0
    run: RunStatus
    supervisor: SupervisorStatus
    phases: tuple[PhaseStatus, ...] = ()
    datasets: tuple[DatasetStatus, ...] = ()
    total: DatasetStatus | None = None
    """All datasets of prompts together, named `total`; its caps are those over all datasets."""
    servers: tuple[ServerStatus, ...] = ()
    gpus: tuple[GpuStatus, ...] = ()
    host: HostStatus = HostStatus()
    commands: tuple[CommandStatus, ...] = ()
    """The newest last; at most 20."""
    alerts: tuple[Alert, ...] = ()
    """The most severe first: the first one is the line the screen shows."""
    result: str = ""
    """What the benchmark found, in short; empty while it is not done."""

    def to_json(self) -> dict[str, Any]:
        """The documented form, with `schema` as the first key."""
        body = self.model_dump(mode="json")
        return {"schema": body.pop("schema_"), **body}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Status:
        """Reads `to_json`; fields of a newer supervisor that we do not know are left out."""
        return cls.model_validate({"schema_": body.get("schema", SCHEMA), **body})
