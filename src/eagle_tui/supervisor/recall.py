"""What the run's files tell of the past when the state file was lost or emptied.

Attempts stand in the event logs, with the process of each; what finished phases made stands in
their manifests. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eagle_tui.proc import Process
from eagle_tui.rundir import manifest
from eagle_tui.rundir.paths import PHASE_DIRS, RunDir
from eagle_tui.text import parse_json

_FIRST_LINE = 1 << 16


@dataclass(frozen=True)
class Recalled:
    """An attempt of a phase, by the first line of its event log."""

    number: int
    at: float
    """Unix time at which it began."""
    process: Process


def attempts(run: RunDir, phase: str) -> list[Recalled]:
    """The attempts of a phase that left an event log, the oldest first."""
    found = []
    for number, path in run.event_logs(phase).items():
        try:
            with path.open("rb") as file:
                first = parse_json(file.readline(_FIRST_LINE))
            process = Process(int(first["pid"]), int(first["started"]))
            found.append(Recalled(number, float(first["at"]), process))
        except (OSError, ValueError, TypeError, KeyError):
            continue  # a log without its beginning: the others still tell
    return found


def began(run: RunDir) -> float | None:
    """Unix time of the first attempt of any phase; None when there was none."""
    return min((a.at for phase in PHASE_DIRS for a in attempts(run, phase)), default=None)


def counts(run: RunDir, phase: str) -> dict[str, Any]:
    """What the phase's manifest counts; empty when there is none that can be read."""
    try:
        made = manifest.read(run, phase)
    except (OSError, ValueError):
        return {}
    return made.counts if made else {}


def done(phase: str, told: dict[str, Any]) -> tuple[int, str] | None:
    """How much a finished phase has done, and of what, by the counts of its manifest; None where
    they do not say."""
    if phase == "prepare":
        rows = [prompts(item) for item in told.values()]
        return (sum(rows), "rows") if rows else None
    if phase in ("merge", "extract"):
        parts = [told.get(part) for part in ("train", "val")]
        rows = [_whole(part.get("rows")) for part in parts if isinstance(part, dict)]
        return (sum(rows), "rows") if rows else None
    return (_whole(told["steps"]), "steps") if phase == "train" and "steps" in told else None


def prompts(item: object) -> int:
    """A dataset's prompts, by its counts in the manifest of `prepare`."""
    return _whole(item.get("kept")) if isinstance(item, dict) else 0


def datasets(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Each dataset's counts in the manifest of `generate`, as its event log tells a dataset; the
    lengths of single responses are not in it."""
    found = []
    for name, item in told.items():
        if isinstance(item, dict) and isinstance(item.get("states"), dict):
            states = {str(state): _whole(n) for state, n in item["states"].items()}
            figures = {key: _whole(item.get(key)) for key in _FIGURES}
            found.append({"name": name, "states": states, "lengths": {}, **figures})
    return found


_FIGURES = ("prompts", "tokens", "reasoned", "reasoning_tokens")


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
