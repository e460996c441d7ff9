"""Rows of a log of any size and content, by byte offset. Pure.

A row begins after each newline. A line without end is cut, so that no row is ever large: at a
multiple of CUT when no row began in the CUT bytes before it; where a progress bar draws itself anew
by CR, at a multiple of BLOCK when none began in the BLOCK bytes before that. So where rows begin is
told by the bytes around, the same from whatever side one comes, and a file needs no index: rows are
had block by block, at once, also from the middle of a terabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from eagle_tui.records import LOG_LEVELS, LogLevel
from eagle_tui.text import redact

CUT = 4096
BLOCK = 1 << 18
BEFORE, AFTER = BLOCK, 2 * BLOCK + 8
"""Bytes from a block's first one on, back and forth, that tell where its rows begin and end."""
SHOWN = 2 * CUT
"""Characters of a row that are shown; only a progress bar's state can be longer."""

_ERROR = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL|Fatal Python error|Segmentation fault|CUDA error|Traceback)\b"
    r"|^[\w.]*(?:Error|Exception)\b|\berror:|\bKilled\b|core dumped"
)
_WARNING = re.compile(r"\b(?:WARN|WARNING)\b|\b\w*Warning:|\bwarning:")
_INFO = re.compile(r"\bINFO\b")
_DEBUG = re.compile(r"\b(?:DEBUG|TRACE)\b")
_WORDS_WITHIN = 200
"""Characters in which a line says its level."""
_STAMP = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_STAMP_WITHIN = 80
_CONTINUES = re.compile(
    r"^(?:\s|Traceback|During handling|The above exception|[\w.]+(?:Error|Exception)\b)"
)


@dataclass(frozen=True)
class Row:
    """Where a row lies: [start, end), its newline included."""

    start: int
    end: int


def rows_of_block(data: bytes, base: int, block: int) -> list[Row]:
    """The rows that begin in [block, block + BLOCK); `block` is a multiple of BLOCK.

    `data` are the file's bytes from `base` on: from BEFORE bytes before `block`, or the file's
    beginning, to AFTER bytes after it, or the file's end.
    """
    high = block + AFTER
    starts = _starts(data, base, block, high)
    mine = [at for at in starts if at < block + BLOCK]
    if not mine:
        return []
    # Another row begins within AFTER, or the file ends.
    end = starts[len(mine)] if len(starts) > len(mine) else min(base + len(data), high)
    return [Row(a, b) for a, b in zip(mine, [*mine[1:], end], strict=True)]


def _starts(data: bytes, base: int, low: int, high: int) -> list[int]:
    """The bytes in [low, high) at which rows begin, in order."""
    end = min(base + len(data), high)
    found: list[int] = []
    if low == 0 and end > 0:
        found.append(0)
    at = data.find(b"\n", max(low - 1 - base, 0))
    while at >= 0 and base + at + 1 < end:
        if base + at + 1 >= low:
            found.append(base + at + 1)
        at = data.find(b"\n", at + 1)
    cuts = []
    for place in range(-(-low // CUT) * CUT, end, CUT):
        if place > 0 and _cut(data, base, place):
            whole = _whole_character(data, place - base) + base
            if low <= whole:
                cuts.append(whole)
    # A cut moved back over the border of the block belongs to the one before; that one sees it.
    beyond = -(-end // CUT) * CUT
    if beyond < base + len(data) and _cut(data, base, beyond):
        whole = _whole_character(data, beyond - base) + base
        if low <= whole < end:
            cuts.append(whole)
    return sorted({*found, *cuts})


def _cut(data: bytes, base: int, place: int) -> bool:
    """Whether a line is cut at `place`, a multiple of CUT."""
    at = place - base
    if place >= base + len(data):
        return False
    near = data[max(at - CUT, 0) : at]
    if b"\n" in near:
        return False
    if b"\r" not in near:
        return True
    return place % BLOCK == 0 and b"\n" not in data[max(at - BLOCK, 0) : at]


def _whole_character(data: bytes, at: int) -> int:
    """`at`, or up to three bytes before it where a character of UTF-8 begins that goes over it."""
    for back in range(1, 4):
        if at - back < 0:
            break
        byte = data[at - back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte >> 5 == 6 else 3 if byte >> 4 == 14 else 4 if byte >> 3 == 30 else 1
        return at - back if length > back else at
    return at


class Shown(NamedTuple):
    """A row as it is shown."""

    text: str
    updates: int
    """States of a progress bar that were passed over."""
    level: LogLevel | None


def shown(raw: bytes) -> Shown:
    """A row without its line end and without a server's keys; of a progress bar the last state
    alone."""
    line = raw.rstrip(b"\r\n")
    states = [state for state in line.split(b"\r") if state.strip()] if b"\r" in line else [line]
    text = (states[-1] if states else b"").decode("utf-8", "replace")
    if len(text) > SHOWN:
        text = text[:SHOWN] + "…"
    return Shown(redact(text), max(len(states) - 1, 0), level_of(text))


def level_of(text: str) -> LogLevel | None:
    """What a line says of its own severity; None when it says nothing."""
    head = text[:_WORDS_WITHIN]
    if _ERROR.search(head):
        return "error"
    if _WARNING.search(head):
        return "warning"
    if _INFO.search(head):
        return "info"
    return "debug" if _DEBUG.search(head) else None


def carry_levels(rows: Iterable[Shown]) -> list[Shown]:
    """Give lines that continue another one, as a traceback's do, the level of that."""
    out: list[Shown] = []
    level: LogLevel | None = None
    for row in rows:
        if row.level is None and level in ("error", "warning") and _CONTINUES.match(row.text):
            row = row._replace(level=level)
        else:
            level = row.level
        out.append(row)
    return out


def time_of(text: str, zone: tzinfo | None = None) -> float | None:
    """Unix time of the stamp in a line; without a zone of its own it is local, or of `zone`."""
    match = _STAMP.search(text[:_STAMP_WITHIN])
    if match is None:
        return None
    try:
        at = datetime.fromisoformat(f"{match['day']}T{match['time']}")
        own = match["zone"]
        if own is not None:
            offset = (
                datetime.fromisoformat(f"2000-01-01T00:00:00{own}").tzinfo if own != "Z" else UTC
            )
            at = at.replace(tzinfo=offset)
        elif zone is not None:
            at = at.replace(tzinfo=zone)
        return at.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def at_least(level: LogLevel | None, wanted: LogLevel | None) -> bool:
    """Whether a line of `level` passes the filter; one that says nothing counts as info."""
    if wanted is None:
        return True
    return LOG_LEVELS.index(level or "info") >= LOG_LEVELS.index(wanted)
