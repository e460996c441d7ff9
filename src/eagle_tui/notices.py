"""What is worth telling somebody who does not look at the screen. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from eagle_tui.protocol import Severity, Status

NoticeKind = Literal["phase_done", "phase_failed", "paused", "alert", "done"]


@dataclass(frozen=True)
class Notice:
    """Something that changed."""

    kind: NoticeKind
    severity: Severity
    subject: str
    """What it is about: a phase's name or an alert's rule."""
    text: str


def notices(before: Status | None, after: Status, paused_by_order: bool) -> list[Notice]:
    """What changed from one snapshot to the next. Nothing without a `before`: what a supervisor
    finds when it starts was told by the one before it."""
    return [] if before is None else list(_all(before, after, paused_by_order))


def ordered_pause(status: Status) -> bool:
    """Whether the newest order about it was a pause."""
    for command in reversed(status.commands):
        if command.verb in ("pause", "resume") and command.state != "refused":
            return command.verb == "pause"
    return False


def _all(before: Status, after: Status, paused_by_order: bool) -> Iterator[Notice]:
    states = {phase.name: phase.state for phase in before.phases}
    for phase in after.phases:
        if phase.state == states.get(phase.name):
            continue
        why = f": {phase.reason}" if phase.reason else ""
        if phase.state == "done":
            yield Notice("phase_done", "info", phase.name, f"{phase.name} is done{why}")
        elif phase.state == "failed":
            yield Notice("phase_failed", "error", phase.name, f"{phase.name} failed{why}")
        elif phase.state == "paused" and not paused_by_order:
            text = f"{phase.name} paused by itself{why}"
            yield Notice("paused", "warning", phase.name, text)
    known = {alert.rule for alert in before.alerts}
    for alert in after.alerts:
        if alert.rule in known:
            continue
        if alert.rule == "done":
            found = f": {after.result}" if after.result else ""
            yield Notice("done", "info", "run", f"every phase is done{found}")
        elif alert.severity == "error" and not alert.rule.startswith("phase-"):
            yield Notice("alert", "error", alert.rule, alert.sentence)
