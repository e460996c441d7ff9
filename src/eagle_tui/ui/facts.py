"""What a dialog says about now before it asks: in flight, caps, progress. Pure."""

from __future__ import annotations

from typing import Any

from eagle_tui import fmt
from eagle_tui.protocol import DatasetStatus, PhaseStatus, Status


def facts(verb: str, args: dict[str, Any], status: Status | None) -> str:
    """One sentence about the state that an order would change; empty when there is none."""
    if status is None:
        return ""
    if verb == "pause":
        flying = [row for row in status.datasets if row.in_flight]
        count = sum(row.in_flight for row in flying)
        if not count:
            return "Nothing is in flight now."
        return f"In flight now: {fmt.exact(count)} requests of {_datasets(len(flying))}."
    rows = [*status.datasets, *([status.total] if status.total else [])]
    row = next((item for item in rows if item.name == args.get("dataset")), None)
    if row is not None:
        return _dataset(verb, row)
    phase = next((item for item in status.phases if item.name == args.get("phase")), None)
    if phase is not None:
        return _phase(phase)
    if verb == "order":
        return "Order now: " + ", ".join(item.name for item in status.datasets) + "."
    if verb == "down":
        working = [item.name for item in status.phases if item.state == "running"]
        return f"Running now: {', '.join(working)}." if working else "Nothing is running now."
    return ""


def _datasets(count: int) -> str:
    return "1 dataset" if count == 1 else f"{count} datasets"


def _dataset(verb: str, row: DatasetStatus) -> str:
    done = f"{fmt.progress(row.done, row.prompts)} responses, {fmt.count(row.tokens)} tokens"
    if verb == "concurrency":
        now = "not known" if row.concurrency is None else str(row.concurrency)
        return f"{row.name}: concurrency {now}, {row.in_flight} in flight."
    if verb != "cap":
        return f"{row.name}: {row.state}, {done}."
    caps = []
    if row.cap_tokens is not None:
        caps.append(f"{fmt.count(row.cap_tokens)} tokens")
    if row.cap_samples is not None:
        caps.append(f"{fmt.exact(row.cap_samples)} responses")
    left = f"; left {fmt.eta(row.eta_s)}" if row.eta_s else ""
    return f"{row.name}: {done}; cap now {' and '.join(caps) or 'none'}{left}."


def _phase(phase: PhaseStatus) -> str:
    unit = f" {phase.unit}" if phase.unit else ""
    done = f", {fmt.progress(phase.done, phase.total)}{unit}" if phase.done is not None else ""
    return f"{phase.name}: {phase.state}{done}."


def default_phase(verb: str, status: Status | None) -> str | None:
    """The phase an order most likely means: what runs, or for a rerun what failed or is stale."""
    if status is None:
        return None
    wanted = ("failed", "stale", "stalled", "done") if verb == "rerun" else (
        "running", "paused", "draining", "stalled",
    )  # fmt: skip
    for state in wanted:
        for phase in status.phases:
            if phase.state == state:
                return phase.name
    return None
