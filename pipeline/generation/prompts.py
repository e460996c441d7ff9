"""The prompts of one dataset, read one at a time: 100,000 of them are never in memory at once."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eagle_tui.rundir import jsonl

from .fastjson import loads

_HEAD = re.compile(rb'\{"id":\s?"([^"\\]+)"')
"""How a line begins that we wrote; other lines are parsed."""
_IDS = re.compile(rb'"prompt_ids":\s?\[([\d,\s]*)\]')

Order = Literal["file", "shortest_first", "longest_first"]


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

    Memory: eight bytes and the id a prompt, four more for its length, which is only counted for an
    `order` by length. ValueError: a line is broken. FileNotFoundError: there is no such file.
    """

    def __init__(self, path: Path, order: Order = "file") -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offsets = array("q", (0,))
        self.ids: list[str] = []
        self._order: Order = order
        self._sizes = array("I")
        end = 0
        for offset, line in jsonl.lines(path):
            end = offset + len(line) + 1
            if not line.strip():
                self._offsets[-1] = end
                continue
            self.ids.append(_id(path, offset, line))
            self._offsets.append(end)
            if order != "file":
                self._sizes.append(_size(path, offset, line))

    def in_order(self, places: Iterable[int]) -> Iterable[int]:
        """These places in the order in which they are to be sent; like ones stay as they stand."""
        if self._order == "file":
            return places
        sizes = self._sizes
        sign = 1 if self._order == "shortest_first" else -1
        return sorted(places, key=lambda place: sign * sizes[place])

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


def prompt_ids(path: Path) -> Iterator[str]:
    """The ids of all prompts of a file. Errors as those of `PromptFile`."""
    for offset, line in jsonl.lines(path):
        if line.strip():
            yield _id(path, offset, line)


def _id(path: Path, offset: int, line: bytes) -> str:
    match = _HEAD.match(line)
    return match[1].decode() if match else str(_parse(path, offset, line)["id"])


def _size(path: Path, offset: int, line: bytes) -> int:
    """Tokens of a prompt, without parsing them where it can be helped."""
    if match := _IDS.search(line):
        return match[1].count(b",") + 1 if match[1].strip() else 0
    return len(_parse(path, offset, line).get("prompt_ids") or ())


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
