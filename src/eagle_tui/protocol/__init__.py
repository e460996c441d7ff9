"""What crosses the socket: frozen snapshots and commands, with the schema other programs rely on.

`Status` is the JSON of `eagle-tui status --json`. Unknown is null, never NaN. Durations are in
seconds, times are Unix seconds, memory is in bytes, shares are 0..1.
"""

from __future__ import annotations

from .base import (
    SCHEMA,
    CommandState,
    DatasetState,
    Frozen,
    PhaseState,
    RetuneStep,
    SampleState,
    ServerState,
    Severity,
)
from .commands import CommandRequest, CommandStatus, Preview
from .datasets import HISTOGRAM_EDGES, DatasetStatus, LengthFigures, Sample
from .history import Event, History, HistoryPoint, Mark
from .machine import GpuStatus, HostStatus
from .phases import Estimate, PhaseExit, PhaseStatus
from .servers import EndpointFigures, Launch, RetuneStatus, ServerStatus, Setting, Tuning
from .status import Alert, RunStatus, Status, SupervisorStatus

__all__ = [
    "HISTOGRAM_EDGES",
    "SCHEMA",
    "Alert",
    "CommandRequest",
    "CommandState",
    "CommandStatus",
    "DatasetState",
    "DatasetStatus",
    "EndpointFigures",
    "Estimate",
    "Event",
    "Frozen",
    "GpuStatus",
    "History",
    "HistoryPoint",
    "HostStatus",
    "Launch",
    "LengthFigures",
    "Mark",
    "PhaseExit",
    "PhaseState",
    "PhaseStatus",
    "Preview",
    "RetuneStatus",
    "RetuneStep",
    "RunStatus",
    "Sample",
    "SampleState",
    "ServerState",
    "ServerStatus",
    "Setting",
    "Severity",
    "Status",
    "SupervisorStatus",
    "Tuning",
]
