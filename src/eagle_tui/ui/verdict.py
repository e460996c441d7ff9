"""The alert line: the worst alert, else what limits the run now, else that all is well. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagle_tui import fmt
from eagle_tui.protocol import PhaseStatus, Severity, Status

KV_FULL = 0.75
"""From this share of the KV pool on, waiting requests wait for memory."""
GPU_IDLE = 0.70
"""Below this mean utilization with nothing queued the server wants more requests."""
REASONING_EXPECTED_FROM = 20
"""Finished responses from which "none holds reasoning" is no coincidence."""

_ACTIVE = ("running", "paused", "draining", "stalled")


@dataclass(frozen=True)
class Verdict:
    """One line: what, and what to do about it."""

    severity: Severity | None
    """None: all is well."""
    sentence: str
    remedy: str = ""
    more: int = 0
    """How many further alerts there are."""


def active_phase(status: Status) -> PhaseStatus | None:
    """The phase that is at work or held; None when none is."""
    return next((phase for phase in status.phases if phase.state in _ACTIVE), None)


def verdict(status: Status) -> Verdict:
    """What the operator should know first."""
    if status.alerts:
        first = status.alerts[0]
        return Verdict(first.severity, first.sentence, first.remedy, len(status.alerts) - 1)
    return _phases(status) or _servers(status) or _gpus(status) or Verdict(None, "All is well")


def _phases(status: Status) -> Verdict | None:
    if not status.phases:
        return Verdict("info", "The run has no phases yet")
    for phase in status.phases:
        if phase.state == "failed":
            reason = phase.reason or "no reason was given"
            return Verdict("error", f"{phase.name} failed: {reason}", "R runs it again")
    active = active_phase(status)
    if active is not None:
        if active.state in ("paused", "draining"):
            return Verdict("warning", f"{active.name} is {active.state}", "r resumes")
        return None
    if all(phase.state == "done" for phase in status.phases):
        if status.result:
            return Verdict(None, f"done: {status.result}", "9: result")
        return Verdict(None, "All phases are done")
    waiting = next(phase for phase in status.phases if phase.state != "done")
    reason = f": {waiting.reason}" if waiting.reason else ""
    return Verdict("info", f"Nothing is running; {waiting.name} is {waiting.state}{reason}")


def _servers(status: Status) -> Verdict | None:
    for server in status.servers:
        if server.state in ("failed", "unready", "starting", "stopping"):
            severity: Severity = "error" if server.state == "failed" else "warning"
            reason = f": {server.reason}" if server.reason else ""
            return Verdict(severity, f"Server {server.name} is {server.state}{reason}")
    active = active_phase(status)
    if active is None or active.name != "generate":
        return None
    for server in status.servers:
        if server.queued and server.kv_usage is not None and server.kv_usage >= KV_FULL:
            running = server.running or 0
            return Verdict(
                "info",
                f"The KV cache is the limit: {fmt.percent(server.kv_usage)} full, {running} of "
                f"{running + server.queued} requests run",
            )
    utils = [gpu.util for gpu in status.gpus if gpu.util is not None]
    queued = sum(server.queued or 0 for server in status.servers)
    if utils and not queued and sum(utils) / len(utils) < GPU_IDLE and status.servers:
        mean = fmt.percent(sum(utils) / len(utils))
        return Verdict(
            "info", f"The server could take more: GPUs at {mean}, nothing queued", "n raises it"
        )
    return None


def _gpus(status: Status) -> Verdict | None:
    for gpu in status.gpus:
        if gpu.state != "ok":
            return Verdict("error", f"GPU {gpu.index} ({gpu.name}): {gpu.state}")
    held = [gpu for gpu in status.gpus if gpu.throttle]
    if held:
        which = ", ".join(str(gpu.index) for gpu in held)
        return Verdict("info", f"Clocks are held down on GPU {which}: {held[0].throttle}")
    return None
