"""Reading the status of a supervisor that is older or newer than this program.

A supervisor lives for days, and the program may be upgraded meanwhile. What both know is shown;
what cannot be read is left out and named in an alert that comes first.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from eagle_tui.protocol import SCHEMA, Alert, Status

RULE = "version"
_ROUNDS = 20
"""Unreadable parts that are looked for before nothing of the status is taken to be readable."""
_INSTEAD: dict[str, Any] = {
    "run": {"name": "?", "dir": "?", "target": "?"},
    "supervisor": {},
    "at": 0.0,
    "seq": 0,
    "host": {},
}
"""What stands for a part that cannot be read; for every other one, nothing."""


def read_status(body: dict[str, Any]) -> Status:
    """The status in a supervisor's answer, as far as it can be read. Raises ValueError when nothing
    of it can."""
    left_out: set[str] = set()
    parts = dict(body)
    for _ in range(_ROUNDS):
        try:
            status = Status.from_json(parts)
            break
        except ValidationError as error:
            for part, index in _places(error):
                left_out.add(part)
                _take_out(parts, part, index)
    else:
        raise ValueError("nothing of the supervisor's status can be read")
    alert = _alert(body, status, sorted(left_out))
    if alert is None:
        return status
    return status.model_copy(update={"alerts": (alert, *status.alerts)})


def _places(error: ValidationError) -> list[tuple[str, int | None]]:
    """The parts that are wrong, and which item of them; the last item first, so that taking one
    out does not move those that are still to go."""
    found = set()
    for item in error.errors(include_url=False):
        loc = item["loc"]
        part = str(loc[0]) if loc else "run"
        index = loc[1] if len(loc) > 1 and isinstance(loc[1], int) else None
        found.add((part, index))
    return sorted(found, key=lambda place: (place[0], -1 if place[1] is None else -place[1]))


def _take_out(parts: dict[str, Any], part: str, index: int | None) -> None:
    held = parts.get(part)
    if index is not None and isinstance(held, list) and index < len(held):
        parts[part] = [*held[:index], *held[index + 1 :]]
    elif part in _INSTEAD:
        parts[part] = _INSTEAD[part]
    else:
        parts.pop("schema" if part == "schema_" else part, None)


def _alert(body: dict[str, Any], status: Status, left_out: list[str]) -> Alert | None:
    theirs = body.get("schema", SCHEMA)
    if theirs == SCHEMA and not left_out:
        return None
    newer = isinstance(theirs, int) and theirs > SCHEMA
    version = status.supervisor.version
    sentence = "Parts of the supervisor's status cannot be read"
    if theirs != SCHEMA:
        sentence = (
            f"The supervisor is {'newer' if newer else 'older'} than this program (schema {theirs} "
            f"and {SCHEMA}); what both know is shown"
        )
    if left_out:
        sentence += f"; left out: {', '.join(left_out)}"
    remedy = (
        f"attach with the version that started it{f', {version}' if version else ''}"
        if newer
        else f"kill {status.supervisor.pid or 'the supervisor'}: the next look starts one of this "
        "version, which adopts what runs"
    )
    return Alert(rule=RULE, severity="warning", sentence=sentence, remedy=remedy, since=status.at)
