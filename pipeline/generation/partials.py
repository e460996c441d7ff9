"""The journal of answers that were ended half-way: RUN/responses/<dataset>.partial.jsonl.

A row holds all tokens that a prompt's answer has so far; the last row of an id holds, and one
without tokens says that its answer begins anew. A row counts only while its id has no final
response, so nothing has to be taken back when an answer is finished. The file is rewritten with the
rows that still count on open.
"""

from __future__ import annotations

from array import array
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle_tui.rundir import atomic, jsonl

from .fastjson import loads


@dataclass(frozen=True, slots=True)
class Partial:
    """An answer so far."""

    id: str
    output_ids: array[int]
    pieces: int


def partial_row(id: str, output_ids: array[int] | None, pieces: int, made: str) -> dict[str, Any]:
    """A journal row. `made`: fingerprint of model, sampling settings and prompts; tokens are only
    continued under the same."""
    ids = output_ids.tolist() if output_ids else []
    return {"id": id, "pieces": pieces, "made": made, "output_ids": ids}


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
            ids = array("I", row["output_ids"])
            key, pieces, same = str(row["id"]), int(row["pieces"]), row["made"] == made
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        found.pop(key, None)
        if ids and same and key in waiting:
            found[key] = Partial(key, ids, pieces)
    if rows > len(found):
        keep = (partial_row(p.id, p.output_ids, p.pieces, made) for p in found.values())
        atomic.write_bytes(path, b"".join(map(jsonl.encode, keep)))
    return list(found.values())
