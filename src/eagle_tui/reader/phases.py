"""What each phase made, from what, and in which attempts: manifests and event logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eagle_tui.reader.fields import as_dict, as_number, as_whole
from eagle_tui.reader.responses import rows_backward
from eagle_tui.records import AttemptRecord, ManifestRecord, PhaseRecord
from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import PHASE_DIRS, RunDir
from eagle_tui.text import parse_json

MOST_OUTPUTS = 200
"""Files of an output that are named; the others are counted."""
LAST_BYTES = 1 << 20
"""Of a log's end, in which its last line is looked for."""


def read(run: RunDir, until: float | None = None) -> list[PhaseRecord]:
    """Every phase in order. `until`: the Unix time at which the run is looked at; what was made or
    begun after it is left out, what ended after it runs."""
    return [
        PhaseRecord(
            phase=phase,
            manifest=_manifest(run.manifest(phase), until),
            attempts=_attempts(run, phase, until),
        )
        for phase in PHASE_DIRS
    ]


def _manifest(path: Path, until: float | None) -> ManifestRecord | None:
    """What it says; fields that are none of ours are left out. ValueError when there is a manifest
    that cannot be read."""
    # Not by `rundir.manifest`: that brings the whole configuration, and the screen opens without.
    body = atomic.read_json(path)
    if body is None:
        return None
    if not isinstance(body, dict) or not isinstance(body.get("outputs") or {}, dict):
        raise ValueError(f"{path}: no manifest")
    sizes = {name: as_whole(size) or 0 for name, size in as_dict(body.get("outputs")).items()}
    made_at, attempt = as_number(body.get("made_at")), as_whole(body.get("attempt"))
    if made_at is None or attempt is None:
        raise ValueError(
            f"{path}: no manifest: it does not say when and in which attempt it was made"
        )
    if until is not None and made_at > until:
        return None
    return ManifestRecord(
        made_at=made_at,
        attempt=attempt,
        inputs=_texts(body.get("inputs")),
        counts=as_dict(body.get("counts")),
        outputs=dict(sorted(sizes.items())[:MOST_OUTPUTS]),
        files=len(sizes),
        bytes=sum(sizes.values()),
        versions=_texts(body.get("versions")),
        early=str(body.get("early") or ""),
    )


def _texts(value: object) -> dict[str, str]:
    return {name: str(text) for name, text in as_dict(value).items()}


def _attempts(run: RunDir, phase: str, until: float | None) -> tuple[AttemptRecord, ...]:
    found = []
    for number, path in run.event_logs(phase).items():
        first, last = _ends(path)
        begun = as_number(first.get("at"))
        if begun is None or (until is not None and begun > until):
            continue
        record = AttemptRecord(number=number, began_at=begun)
        at = as_number(last.get("at"))
        if at is not None and (until is None or at <= until):
            ended = last.get("e") == "end"
            record = record.model_copy(
                update={
                    "last_at": at,
                    "ended": ended,
                    "outcome": str(last.get("outcome") or "") if ended else "",
                    "reason": str(last.get("reason") or "") if ended else "",
                }
            )
        found.append(record)
    return tuple(found)


def _ends(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first and the last line of an event log, however long; {} for one that cannot be read."""
    with path.open("rb") as file:
        first = file.readline(LAST_BYTES)
        end = file.seek(0, 2)
        stop = max(0, end - LAST_BYTES)
        last = next((line for _, line in rows_backward(file, end, stop) if line), b"")
    return _event(first), _event(last)


def _event(line: bytes) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
