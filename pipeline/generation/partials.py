"""The journal of answers that are not finished: RUN/responses/<dataset>.partial.jsonl.

A row says: of what is known of this id, keep the first `from` tokens, then add these. So a row
costs what is new, and an answer that begins anew is a row `from` 0 without tokens. Rows count only
while their id has no final response, so nothing has to be taken back when an answer is finished.
The file is rewritten with what still counts on open, and while running when it has grown.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from eagle_tui.rundir import atomic, jsonl

from .fastjson import dumps, loads

_NOTHING: array[int] = array("I")


@dataclass(frozen=True, slots=True)
class Partial:
    """An answer so far."""

    id: str
    output_ids: array[int]
    pieces: int
    """Requests that made it."""


def partial_row(
    id: str, output_ids: array[int] | None, pieces: int, made: str, start: int = 0
) -> bytes:
    """A journal row: after the first `start` tokens that are known come these. `made`: fingerprint
    of model, sampling settings and prompts; tokens are only continued under the same."""
    ids = output_ids.tolist() if output_ids else []
    row = {"id": id, "pieces": pieces, "made": made, "from": start, "output_ids": ids}
    return dumps(row) + b"\n"


def snapshot(partials: Iterable[Partial], made: str) -> bytes:
    """The whole journal when only these count."""
    return b"".join(partial_row(p.id, p.output_ids, p.pieces, made) for p in partials)


def load(path: Path, made: str, waiting: Container[str]) -> list[Partial]:
    """Repair the journal, drop what no longer counts from the file, and give the rest.

    `waiting`: ids without a final response. Tokens made from other inputs than `made` are dropped.
    """
    jsonl.repair(path)
    found: dict[str, Partial] = {}
    rows = 0
    for _, line in jsonl.lines(path):
        rows += 1
        try:
            row = loads(line)
            new = array("I", row["output_ids"])
            key, pieces, same = str(row["id"]), int(row["pieces"]), row["made"] == made
            start = int(row.get("from", 0))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            continue
        before = found.pop(key, None)
        known = before.output_ids if before else _NOTHING
        if not same or key not in waiting:
            continue
        if start > len(known) or start < 0:
            # A row between them was lost: what is known is still the beginning of the answer.
            whole, pieces = known, before.pieces if before else 0
        else:
            whole = known[:start] + new
        if whole:
            found[key] = Partial(key, whole, pieces)
    if rows > len(found):
        atomic.write_bytes(path, snapshot(found.values(), made))
    return list(found.values())


def forget(path: Path, ids: Collection[str]) -> None:
    """Drop the rows of these ids from the file; nobody may have it open."""
    jsonl.repair(path)
    lines = [line for _, line in jsonl.lines(path)]
    kept = [line for line in lines if _id_of(line) not in ids]
    if len(kept) < len(lines):
        atomic.write_bytes(path, b"".join(line + b"\n" for line in kept))


def _id_of(line: bytes) -> str:
    try:
        return str(loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        return ""
