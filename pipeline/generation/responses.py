"""The rows of RUN/responses/<dataset>.jsonl and its dead letters: how they look, how they are found
again.

What a resume needs (id, state, usage) stands first in a row, so that a million rows are scanned
without parsing their long arrays.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle_tui.protocol import SampleState
from eagle_tui.rundir import atomic, jsonl

from .fastjson import dumps, loads

_HEAD = re.compile(
    rb'\{"id":"([^"\\]+)","dataset":"[^"\\]*","state":"(complete|truncated|loop|no_answer)",'
    rb'"finish_reason":"[^"\\]*","usage":\{"prompt_tokens":\d+,"completion_tokens":(\d+),'
    rb'"reasoning_tokens":(\d+)\},'
)


@dataclass(frozen=True, slots=True)
class Head:
    """What a resume needs of a stored response."""

    id: str
    state: str
    completion_tokens: int
    reasoning_tokens: int


def response_row(
    *,
    id: str,
    dataset: str,
    state: SampleState,
    finish_reason: str,
    prompt_tokens: int,
    completion_tokens: int,
    reasoning_tokens: int,
    endpoint: str,
    attempt: int,
    pieces: int,
    at: float,
    flag: str,
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    reasoning: str,
    content: str,
    conversation: Any,
) -> dict[str, Any]:
    """One final response. `pieces`: requests that the answer was made by; `flag`: what was unusual
    in it (see `reasoning.Split.flag`; `pool`: cut because the server's KV pool is too small)."""
    return {
        "id": id,
        "dataset": dataset,
        "state": state,
        "finish_reason": finish_reason,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "reasoning_tokens": reasoning_tokens,
        },
        "endpoint": endpoint,
        "attempt": attempt,
        "pieces": pieces,
        "at": at,
        "flag": flag,
        "prompt_ids": prompt_ids,
        "output_ids": output_ids,
        "reasoning": reasoning,
        "content": content,
        "conversation": conversation,
    }


def encode(row: dict[str, Any]) -> bytes:
    """As `jsonl.encode`, but fast for thousands of token ids."""
    return dumps(row) + b"\n"


def read_head(line: bytes) -> Head | None:
    """The head of a line of `responses`; None when it is no row."""
    if line.endswith(b"}") and b"\0" not in line and (match := _HEAD.match(line)):
        return Head(match[1].decode(), match[2].decode(), int(match[3]), int(match[4]))
    try:
        row = loads(line)
        usage = row["usage"]
        return Head(
            str(row["id"]),
            str(row["state"]),
            int(usage["completion_tokens"]),
            int(usage.get("reasoning_tokens") or 0),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@dataclass
class Scan:
    """What `scan` saw beside the rows."""

    repair: jsonl.Repair | None = None
    broken: int = 0
    doubled: int = 0


def scan(path: Path, seen: Scan) -> Iterator[Head]:
    """Repair the file and give the head of each row, every id once.

    Lines that are no rows, and further rows of an id, are moved to `<name>.torn`. The caller is the
    only writer and must take all heads before opening the file to write.
    """
    seen.repair = jsonl.repair(path)
    ids: set[str] = set()
    bad: list[int] = []
    for offset, line in jsonl.lines(path):
        head = read_head(line)
        if head is None:
            if line.strip():
                seen.broken += 1
            bad.append(offset)
        elif head.id in ids:
            seen.doubled += 1
            bad.append(offset)
        else:
            ids.add(head.id)
            yield head
    if bad:
        drop_lines(path, set(bad), keep_in=path.with_name(path.name + ".torn"))


def drop_lines(path: Path, bad: Container[int], *, keep_in: Path | None = None) -> None:
    """Rewrite the file in one step without the lines at these offsets; they are appended to
    `keep_in` before."""
    atomic.remove_left(path)  # of a rewrite that was killed: on a full disk its room is needed
    fd, temp = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with contextlib.ExitStack() as files:
            out = files.enter_context(os.fdopen(fd, "wb"))
            away = files.enter_context(keep_in.open("ab")) if keep_in else None
            for offset, line in jsonl.lines(path):
                if offset not in bad:
                    out.write(line + b"\n")
                elif away is not None:
                    away.write(line + b"\n")
            for file in (away, out):
                if file is not None:
                    file.flush()
                    os.fsync(file.fileno())
        Path(temp).chmod(path.stat().st_mode & 0o777)
        Path(temp).replace(path)
    finally:
        Path(temp).unlink(missing_ok=True)
    atomic.fsync_dir(path.parent)


def dead_row(
    *,
    id: str,
    dataset: str,
    state: SampleState,
    final: bool,
    reason: str,
    endpoint: str,
    attempt: int,
    at: float,
    prompt_tokens: int,
    output_ids: Sequence[int] = (),
    reasoning: str = "",
    content: str = "",
) -> dict[str, Any]:
    """One attempt that did not become a response. `final`: the prompt is given up; the last row of
    an id decides, so that a later row with `final` false opens it again."""
    return {
        "id": id,
        "dataset": dataset,
        "state": state,
        "final": final,
        "reason": reason,
        "endpoint": endpoint,
        "attempt": attempt,
        "at": at,
        "prompt_tokens": prompt_tokens,
        "output_ids": output_ids,
        "reasoning": reasoning,
        "content": content,
    }


def given_up(path: Path) -> dict[str, str]:
    """Id → state of the prompts whose last dead letter is final and whose state no order to retry
    has cleared since. Broken lines are left out."""
    jsonl.repair(path)
    found: dict[str, str] = {}
    for _, line in jsonl.lines(path):
        try:
            row = loads(line)
            if "retry" in row:
                cleared = set(row["states"])
                found = {id: state for id, state in found.items() if state not in cleared}
            elif row["final"]:
                found[str(row["id"])] = str(row["state"])
            else:
                found.pop(str(row["id"]), None)
        except (ValueError, KeyError, TypeError):
            continue
    return found
