"""A terminal as far as Textual and our thin output use one."""

from __future__ import annotations

import re
from typing import Any

from rich.cells import cell_len

TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|(.)", re.DOTALL)


class Terminal:
    """Cells with their styles; knows what the two writers use."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, Any]] = {}
        self.row = self.column = 1
        self.style: tuple[frozenset[str], str, str] = (frozenset(), "", "")

    def write(self, data: str) -> None:
        for numbers, letter, char in TOKEN.findall(data):
            if letter == "H":
                self.row, self.column = map(int, numbers.split(";"))
            elif letter == "C":
                self.column += int(numbers)
            elif letter == "m":
                self._sgr(numbers.split(";"))
            elif char == "\n":
                self.row += 1
            elif char.isprintable() and char:
                self._put(char)

    def _sgr(self, codes: list[str]) -> None:
        attributes, color, ground = self.style
        rest = iter(codes)
        for code in rest:
            if code in ("", "0"):
                attributes, color, ground = frozenset(), "", ""
            elif code == "22":
                attributes -= {"1", "2"}
            elif code in ("38", "48"):
                kind = next(rest)
                value = ",".join([kind, *(next(rest) for _ in range(3 if kind == "2" else 1))])
                color, ground = (value, ground) if code == "38" else (color, value)
            elif code in ("39", "49"):
                color, ground = ("", ground) if code == "39" else (color, "")
            elif len(code) == 1:
                attributes |= {code}
            elif code[0] in "39":
                color = code
            else:
                ground = code
        self.style = attributes, color, ground

    def _put(self, char: str) -> None:
        width = cell_len(char)
        if not width:
            before = self.cells.get((self.row, self.column - 1), (" ", self.style))
            self.cells[self.row, self.column - 1] = (before[0] + char, before[1])
            return
        for n in range(width):
            self._clear(self.column + n)
        self.cells[self.row, self.column] = (char, self.style)
        if width == 2:
            self.cells[self.row, self.column + 1] = ("", self.style)
        self.column += width

    def _clear(self, column: int) -> None:
        """What stood there, both halves of it."""
        there = self.cells.pop((self.row, column), None)
        if there is not None and there[0] == "":
            self.cells.pop((self.row, column - 1), None)
        if (self.row, column + 1) in self.cells and self.cells[self.row, column + 1][0] == "":
            self.cells.pop((self.row, column + 1))
