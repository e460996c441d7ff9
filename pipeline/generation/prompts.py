"""The prompts of one dataset, read one at a time: 100,000 of them are never in memory at once."""

from __future__ import annotations

import os
import re
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle_tui.rundir import jsonl

from .fastjson import loads

_HEAD = re.compile(rb'\{"id":\s?"([^"\\]+)"')
"""How a line begins that we wrote; other lines are parsed."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, ready to be sent."""

    id: str
    prompt_ids: list[int]
    opened: bool
    """The prompt ends inside a thought, so the answer begins in it."""
    conversation: Any


class PromptFile:
    """Byte offsets of the prompts in RUN/prompts/<dataset>.jsonl.

    Memory: eight bytes and the id a prompt. ValueError: a line is broken. FileNotFoundError: there
    is no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offsets = array("q", (0,))
        self.ids: list[str] = []
        end = 0
        for offset, line in jsonl.lines(path):
            end = offset + len(line) + 1
            if not line.strip():
                self._offsets[-1] = end
                continue
            match = _HEAD.match(line)
            found = match[1].decode() if match else str(_parse(path, offset, line)["id"])
            self.ids.append(found)
            self._offsets.append(end)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def read(self, index: int) -> Prompt:
        """The prompt at a place, 0..len-1."""
        start, stop = self._offsets[index], self._offsets[index + 1]
        row = _parse(self.path, start, os.pread(self._fd, stop - start, start))
        return Prompt(
            id=str(row["id"]),
            prompt_ids=row["prompt_ids"],
            opened=bool(row.get("opened", False)),
            conversation=row.get("conversation"),
        )

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _parse(path: Path, offset: int, line: bytes) -> dict[str, Any]:
    try:
        row = loads(line)
    except ValueError as error:
        raise ValueError(
            f"{path}: byte {offset}: not valid JSON ({error}); run prepare again"
        ) from error
    if not isinstance(row, dict) or not isinstance(row.get("id"), str):
        raise ValueError(f"{path}: byte {offset}: a prompt needs an id; run prepare again")
    return row
