"""Stored rows as the screen sees them, read from the end of a file backwards, never whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from eagle_tui.protocol import Sample
from eagle_tui.reader.fields import as_dict, as_number, as_whole
from eagle_tui.text import parse_json

CHUNK = 1 << 18
MAX_ROW = 64 << 20
"""Bytes of a row that is read; a longer one is passed over."""
TITLE = 240
"""Characters of a prompt that stand for it in a list."""

_HEAD = re.compile(
    rb'\{"id":"([^"\\]{1,200})","dataset":"[^"\\]*","state":"(\w+)","finish_reason":[^,]*,'
    rb'"usage":\{"prompt_tokens":\d+,"completion_tokens":(\d+)[^}]*\},.{0,400}?"at":([0-9.]+)'
)
"""What the writer puts first in a row (pipeline/generation/responses.py)."""


@dataclass(frozen=True)
class Head:
    """The start of a row, read without parsing all of it."""

    id: str
    state: str
    tokens: int
    at: float


def rows_backward(file: IO[bytes], end: int, stop: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Offset and bytes of each line that begins at `stop` or after and ends, with its newline,
    before `end`; the last one first. None stands for a line longer than MAX_ROW. Memory: the
    longest line and a chunk."""
    end = whole_end(file, end)
    if end <= stop:
        return
    at = tail = end - 1
    parts: list[bytes] = []
    size = 0
    while at > stop:
        start = max(stop, at - CHUNK)
        file.seek(start)
        pieces = file.read(at - start).split(b"\n")
        at = start
        last = pieces.pop()
        parts.append(last)
        size += len(last)
        if size > MAX_ROW:
            parts = []
        while pieces:
            yield tail - size, _joined(parts, size)
            tail -= size + 1
            last = pieces.pop()
            parts, size = [last], len(last)
    yield tail - size, _joined(parts, size)


def _joined(parts: list[bytes], size: int) -> bytes | None:
    return None if size > MAX_ROW else b"".join(reversed(parts))


def whole_end(file: IO[bytes], size: int) -> int:
    """The byte after the last newline before `size`."""
    at = size
    while at > 0:
        start = max(0, at - CHUNK)
        file.seek(start)
        found = file.read(at - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def read_head(line: bytes) -> Head | None:
    """The start of a row as the writer makes it; None when the row must be parsed."""
    match = _HEAD.match(line)
    if match is None:
        return None
    try:
        return Head(match[1].decode(), match[2].decode(), int(match[3]), float(match[4]))
    except ValueError:
        return None


def parse(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None when it is no JSON object."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def to_sample(row: dict[str, Any]) -> Sample:
    """A stored row as a sample; a count that is none is 0. ValueError when its state is none."""
    talk = row.get("conversation")
    turns = [t for t in talk if isinstance(t, dict)] if isinstance(talk, list) else []
    if isinstance(row.get("token_ids"), list):
        row = {**row, **_native(row, turns[-1] if turns else {})}
    users = [t for t in turns if t.get("role") in ("user", "tool")]
    usage = as_dict(row.get("usage"))
    return Sample(
        id=str(row.get("id", "")),
        dataset=str(row.get("dataset", "")),
        prompt=_text(users[-1].get("content")) if users else "",
        reasoning=_text(row.get("reasoning")),
        content=_text(row.get("content")),
        state=row.get("state", "failed"),
        finish_reason=str(row.get("finish_reason") or ""),
        prompt_tokens=as_whole(usage.get("prompt_tokens")) or 0,
        completion_tokens=as_whole(usage.get("completion_tokens")) or 0,
        reasoning_tokens=as_whole(usage.get("reasoning_tokens")) or 0,
        endpoint=str(row.get("endpoint") or ""),
        at=as_number(row.get("at")) or 0.0,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _native(row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The fields of a response, for a row that came with its answer."""
    prompt = as_whole(row.get("prompt_tokens")) or 0
    return {
        "reasoning": answer.get("reasoning_content"),
        "content": answer.get("content"),
        "state": "complete",
        "endpoint": "native",
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": len(row["token_ids"]) - prompt,
        },
    }
