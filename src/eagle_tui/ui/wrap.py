"""Text of any size and origin cut into terminal lines. Pure.

Bounded: the head and the tail of a huge text are wrapped, the middle is named and left out, so
that a response of many megabytes costs no more than a page. Cells, not characters, are counted.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells

from eagle_tui.text import visible

HEAD_CHARS = 24_000
TAIL_CHARS = 8_000
"""Of a text longer than both together only these ends are shown: a loop is seen at its end."""

_JOINERS = re.compile("[\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff\u034f\u115f\u1160\u3164\uffa0]")
"""Characters of no width, or of one that terminals disagree about: they would shift the line."""


def safe(text: str) -> str:
    """`visible` text without characters whose width terminals disagree about."""
    return text if text.isascii() and text.isprintable() else _JOINERS.sub("", visible(text))


def safe_line(text: str) -> str:
    """`safe` text on one line."""
    return text if text.isascii() and text.isprintable() else safe(text).replace("\n", " ")


def bounded(text: str, head: int = HEAD_CHARS, tail: int = TAIL_CHARS) -> list[str]:
    """The text in one part, or head, a note of what is left out, and tail."""
    if len(text) <= head + tail:
        return [text]
    left_out = len(text) - head - tail
    note = f"[{left_out:,} characters in the middle are not shown]"
    return [text[:head], note, text[-tail:]]


def wrap(text: str, width: int, head: int = HEAD_CHARS, tail: int = TAIL_CHARS) -> list[str]:
    """Lines of at most `width` cells, broken at spaces where there are any; newlines kept. Of a
    longer text the first `head` and the last `tail` characters."""
    lines: list[str] = []
    for part in bounded(text, head, tail):
        for line in safe(part).split("\n"):
            lines.extend(_wrap_line(line.rstrip(), max(width, 1)))
    return lines


def _wrap_line(line: str, width: int) -> list[str]:
    if len(line) <= width and cell_len(line) <= width:
        return [line]
    out: list[str] = []
    indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
    rest = line
    while rest:
        head = chop_cells(rest[: width + 1], width)[0] if rest else ""
        if not head:
            head = rest[0]
        if len(head) < len(rest):
            space = head.rfind(" ", len(indent) + 1)
            if rest[len(head)] != " " and space > width // 3:
                head = head[:space]
        out.append(head.rstrip() if len(head) < len(rest) else head)
        rest = rest[len(head) :].lstrip(" ")
        if rest and indent:
            rest = indent + rest
    return out or [""]
