"""Markdown tables of text that may be anything: nothing in it becomes markup. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from eagle_tui.text import visible

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def plain(text: object) -> str:
    """Text as it is, on one line, with all that Markdown or a terminal would act on made harmless.
    Names with `_` or `.` inside words stay readable: a lone underscore in a word is no markup."""
    line = " ".join(visible(str(text)).split())
    escaped = _SPECIAL.sub(r"\\\1", line)
    return re.sub(r"(?<=\w)\\_(?=\w)", "_", escaped)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table; a head that begins with `-` is a column aligned to the right. No rows: no table."""
    body = [[plain(cell) for cell in row] for row in rows]
    if not body:
        return []
    right = [head.startswith("-") for head in heads]
    names = [head.lstrip("-") for head in heads]
    widths = [max(len(name), *(len(row[i]) for row in body), 3) for i, name in enumerate(names)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(w) if r else cell.ljust(w)
            for cell, w, r in zip(cells, widths, right, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    return [line(names), line(rule), *(line(row) for row in body)]
