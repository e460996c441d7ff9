"""Why prompts got no response: the dead letters of a dataset, counted by reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from eagle_tui.reader.fields import as_number
from eagle_tui.reader.responses import rows_backward
from eagle_tui.records import FailureCount
from eagle_tui.text import parse_json

MOST_BYTES = 32 << 20
"""Of the file's end that are looked through."""
_NUMBERS = re.compile(r"\d[\d,.]*")


def count(path: Path, until: float | None = None) -> list[FailureCount]:
    """The reasons in a dataset's dead letters, the most frequent first; those of the same words but
    other numbers are one reason. `until` is the Unix time after which rows are left out."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            found: dict[tuple[str, str], FailureCount] = {}
            decided: set[str] = set()
            for _, line in rows_backward(file, end, max(0, end - MOST_BYTES)):
                row = _row(line)
                if row is None or (until is not None and row["at"] > until):
                    continue
                _count(row, found, decided)
    except FileNotFoundError:
        return []
    return sorted(found.values(), key=lambda item: (-item.given_up, -item.rows, item.reason))


def _row(line: bytes | None) -> dict[str, Any] | None:
    """A dead letter; None for a line that is none, as the torn end of a file."""
    if not line:
        return None
    try:
        row = parse_json(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not {"id", "state", "reason"} <= row.keys():
        return None
    known = isinstance(row["id"], str | int) and as_number(row.get("at")) is not None
    return row if known else None


def _count(
    row: dict[str, Any], found: dict[tuple[str, str], FailureCount], decided: set[str]
) -> None:
    """Take a row in; rows come from the newest on, and an id's newest row decides about it."""
    key = (str(row["state"]), _NUMBERS.sub("N", str(row["reason"])))
    first = row["id"] not in decided
    decided.add(row["id"])
    given_up = int(first and row.get("final") is True)
    before = found.get(key)
    if before is None:
        found[key] = FailureCount(
            state=key[0], reason=str(row["reason"]), rows=1, given_up=given_up,
            last_at=row["at"], last_id=str(row["id"]),
        )  # fmt: skip
    else:
        more = {"rows": before.rows + 1, "given_up": before.given_up + given_up}
        found[key] = before.model_copy(update=more)
