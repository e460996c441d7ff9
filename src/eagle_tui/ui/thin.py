"""Output made thin: of what is drawn, only the cells that differ from what the terminal shows, in
as few bytes as say so. Pure.

Textual writes whole strips, each with its full style and a reset, whatever is in these cells
already; on a screen of figures three bytes of four are colours that do not change. Here every cell
of the terminal is remembered, and the style and place in which it stands. What is not understood is
passed on as it is, and then nothing is taken for known; so are characters that are not one cell
wide, of which terminals may think otherwise.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import cached_cell_len

_TOKEN = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H|\x1b\[(?P<style>[0-9;]*)m|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<newline>\n)"
    r"|(?P<apart>\x1b\[\?2026[hl]|\x1b\](?:[012]|9|52);[^\x07\x1b]*(?:\x07|\x1b\\))"
    r"|(?P<other>\x1b.?|[\x00-\x1f\x7f-\x9f])",
    re.DOTALL,
)
# `apart`: begin and end of a frame, title, notification, clipboard, which change no cell.
JUMP = 6
"""Cells that stay are written again rather than jumped over when there are fewer between two that
change."""

_WEIGHTS = frozenset({"1", "2"})
"""Bold and dim, which one code (22) takes away."""

Cell = tuple[str, str]
"""A character and its style, as the numbers of its SGR sequence."""


class Thinner:
    """One terminal. `feed` takes what Textual writes and gives what is worth writing."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Cell | None]] = {}
        self._style: str | None = None
        """What the terminal writes in now; None: not known."""
        self._at: tuple[int, int] | None = None
        """Where the terminal's cursor stands, row and column; None: not known."""

    def forget(self) -> None:
        """The terminal may show anything: whatever is drawn from now on is written."""
        self._rows.clear()
        self._style = self._at = None

    def feed(self, data: str) -> str:
        """What to write instead of `data`."""
        out: list[str] = []
        row = column = 0  # not known until a move says so
        style, before = "", self._style
        for token in _TOKEN.finditer(data):
            kind = token.lastgroup
            if kind == "text":
                if not row:
                    return self._give_up(data, before)
                column = self._text(out, row, column, token["text"], style)
            elif kind == "column":
                row, column = int(token["row"]), int(token["column"])
            elif kind == "style":
                style = _then(style, token["style"])
            elif kind == "newline":
                row = 0  # a move follows
            elif kind == "apart":
                out.append(token[0])
            else:
                return self._give_up(data, before)
        if row and (row, column) != (1, 1) and self._at != (row, column):
            # The cursor of a line that is typed into, which an input method looks for.
            self._move(out, row, column)
        return "".join(out)

    def _give_up(self, data: str, style: str | None) -> str:
        reset = "\x1b[m" if style else ""
        self.forget()
        return reset + data

    def _text(self, out: list[str], row: int, column: int, text: str, style: str) -> int:
        """Write what differs of a text; gives the column after it."""
        cells = self._rows.setdefault(row, [])
        start, width = column - 1, len(text)
        if not (text.isascii() or _simple(text)):
            # Where it ends is for the terminal to say, and so is what stands beside it.
            self._write(out, row, column, text, style)
            self._at = None
            self._put(cells, start, [None] * max(len(cells) - start, 1))
            return column + sum(map(cached_cell_len, text))
        new: list[Cell | None] = [(char, style) for char in text]
        old = cells[start : start + width]
        if old != new:
            old += [None] * (width - len(old))
            for first, end in _changes(old, new):
                self._write(out, row, column + first, text[first:end], style)
                self._at = (row, column + end)
            self._put(cells, start, new)
        return column + width

    @staticmethod
    def _put(cells: list[Cell | None], start: int, new: list[Cell | None]) -> None:
        cells += [None] * (start - len(cells))
        cells[start : start + len(new)] = new

    def _write(self, out: list[str], row: int, column: int, text: str, style: str) -> None:
        self._move(out, row, column)
        if style != self._style:
            out.append(_change(self._style, style))
            self._style = style
        out.append(text)

    def _move(self, out: list[str], row: int, column: int) -> None:
        if self._at == (row, column):
            return
        if self._at is not None and self._at[0] == row and self._at[1] < column:
            out.append(f"\x1b[{column - self._at[1]}C")
        else:
            out.append(f"\x1b[{row};{column}H")
        self._at = (row, column)


def _changes(old: list[Cell | None], new: list[Cell | None]) -> list[tuple[int, int]]:
    """Where two rows of cells differ: [first, end) of each stretch, those close by joined."""
    found: list[tuple[int, int]] = []
    for n, (before, after) in enumerate(zip(old, new, strict=True)):
        if before == after:
            continue
        if found and n - found[-1][1] < JUMP:
            found[-1] = (found[-1][0], n + 1)
        else:
            found.append((n, n + 1))
    return found


@lru_cache(maxsize=4096)
def _simple(text: str) -> bool:
    """Whether every character takes one cell, in any terminal."""
    return all(char.isascii() or (char < "\u2e80" and cached_cell_len(char) == 1) for char in text)


def _then(style: str, code: str) -> str:
    """The style that is in force after `code` where `style` was."""
    if code in ("", "0"):
        return ""
    return f"{style};{code}" if style else code


@lru_cache(maxsize=4096)
def _change(old: str | None, new: str) -> str:
    """The shortest sequence from one style to another."""
    whole = f"\x1b[0;{new}m" if new else "\x1b[m"
    if old is None:
        return whole
    before, after = _parts(old), _parts(new)
    if before is None or after is None:
        return whole
    gone = before[0] - after[0]
    if gone - _WEIGHTS:
        return whole  # an attribute goes, which is done by a reset
    codes = ["22"] if gone else []
    codes += sorted(after[0] - before[0] | (after[0] & _WEIGHTS if gone else set()))
    if before[1] != after[1]:
        codes.append(after[1] or "39")
    if before[2] != after[2]:
        codes.append(after[2] or "49")
    less = f"\x1b[{';'.join(codes)}m"
    return less if codes and len(less) < len(whole) else whole


@lru_cache(maxsize=4096)
def _parts(style: str) -> tuple[frozenset[str], str, str] | None:
    """Attributes, colour and ground of a style, as codes; empty where it is the terminal's own.
    None: it holds something else."""
    attributes, color, ground = set(), "", ""
    codes = iter(style.split(";") if style else ())
    for code in codes:
        if code in ("38", "48"):
            kind = next(codes, "")
            count = {"2": 3, "5": 1}.get(kind)
            numbers = [next(codes, "") for _ in range(count or 0)]
            if count is None or not all(numbers):
                return None
            value = ";".join((code, kind, *numbers))
            color, ground = (value, ground) if code == "38" else (color, value)
        elif code in {"1", "2", "3", "4", "5", "7", "8", "9"}:
            attributes.add(code)
        elif code[:1] in ("3", "9") and len(code) == 2 and code not in ("38",):
            color = "" if code == "39" else code
        elif (code[:1] == "4" and len(code) == 2) or (code[:2] == "10" and len(code) == 3):
            ground = "" if code == "49" else code
        else:
            return None
    return frozenset(attributes), color, ground
