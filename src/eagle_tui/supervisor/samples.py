"""Reading stored responses for the screen, from the end of the file backwards, never whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eagle_tui.protocol import Sample

CHUNK = 1 << 18
LOOK_BACK = 64 << 20
"""Bytes looked through for longest, truncated and the like: the newest 64 MiB of a dataset."""
LONGEST_TEXT = 200_000
"""Characters of one text that go to the screen."""
KINDS = ("newest", "longest", "truncated", "no_answer", "loop")


def lines_backward(path: Path, most: int = LOOK_BACK) -> Iterator[bytes]:
    """Whole lines from the last to the first, within the last `most` bytes."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        end = file.seek(0, os.SEEK_END)
        stop = max(0, end - most)
        rest: bytes | None = None
        while end > stop:
            start = max(stop, end - CHUNK)
            file.seek(start)
            parts = file.read(end - start).split(b"\n")
            end = start
            if rest is None:
                # What follows the last newline is a row that is being written.
                parts.pop()
                if not parts:
                    continue
            else:
                parts[-1] += rest
            yield from (line for line in reversed(parts[1:]) if line)
            rest = parts[0]
        if stop == 0 and rest:
            yield rest


def _text(value: Any) -> str:
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def to_sample(row: dict[str, Any]) -> Sample:
    """A stored row as the screen sees it."""
    turns = row.get("conversation") or []
    if "token_ids" in row:
        row = {**row, **_native(row, turns[-1] if turns else {})}
    users = [t for t in turns if t.get("role") in ("user", "tool")]
    usage = row.get("usage") or {}
    return Sample(
        id=str(row.get("id", "")),
        dataset=str(row.get("dataset", "")),
        prompt=_text(users[-1].get("content")) if users else "",
        reasoning=_text(row.get("reasoning")),
        content=_text(row.get("content")),
        state=row.get("state", "failed"),
        finish_reason=str(row.get("finish_reason") or ""),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or 0),
        reasoning_tokens=int(usage.get("reasoning_tokens") or 0),
        endpoint=str(row.get("endpoint") or ""),
        at=float(row.get("at") or 0.0),
    )


def _native(row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The fields of a response, for a row that came with its answer."""
    prompt = int(row.get("prompt_tokens") or 0)
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


def read(paths: list[Path], kind: str, limit: int, until: float = float("inf")) -> list[Sample]:
    """Samples of one kind from these files that were there at Unix time `until`, the newest (or
    longest) first. ValueError for a kind that is none of KINDS."""
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}; found {kind!r}")
    found: list[Sample] = []
    for path in paths:
        if kind == "longest":
            found += _longest(path, limit, until)
            continue
        count = 0
        for line in lines_backward(path):
            if kind != "newest" and f'"{kind}"'.encode() not in line:
                continue
            sample = to_sample(json.loads(line))
            if kind in ("newest", sample.state) and sample.at <= until:
                found.append(sample)
                count += 1
                if count >= limit:
                    break
    if kind == "longest":
        found.sort(key=lambda s: -s.completion_tokens)
    else:
        found.sort(key=lambda s: -s.at)
    return found[:limit]


def _longest(path: Path, limit: int, until: float) -> list[Sample]:
    """The rows with the most bytes stand in for the most tokens until they are read."""
    found: list[Sample] = []
    for line in sorted(lines_backward(path), key=len, reverse=True):
        sample = to_sample(json.loads(line))
        if sample.at <= until:
            found.append(sample)
        if len(found) >= limit * 2:
            break
    return found
