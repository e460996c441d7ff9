"""In which line of a TOML text a setting stands. Pure."""

from __future__ import annotations

import re

Loc = tuple[int | str, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_KEY})\s*\]")
_SETTING = re.compile(rf"^\s*({_KEY})\s*=(.*)$")
_QUOTES = re.compile(r'"""|' + "'''")


def lines_of(text: str) -> dict[Loc, int]:
    """Line (from 1) of each table header and key, by its place: names, and numbers in lists of
    tables. What stands in inline tables and arrays has the line of the key that they belong to."""
    found: dict[Loc, int] = {}
    counts: dict[Loc, int] = {}
    here: Loc = ()
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if inside:  # a string over several lines
            if inside in line:
                inside = ""
            continue
        if match := _HEADER.match(line):
            here = _enter(_parts(match[2]), counts, many=match[1] == "[[")
            for depth in range(1, len(here) + 1):
                found.setdefault(here[:depth], number)
        elif match := _SETTING.match(line):
            place = here
            for part in _parts(match[1]):
                place = (*place, part)
                found.setdefault(place, number)
            quotes = _QUOTES.findall(match[2])
            inside = quotes[0] if len(quotes) == 1 else ""
    return found


def line_of(text: str, loc: Loc) -> int | None:
    """Line of the deepest part of `loc` that stands in the text; None when none does."""
    found = lines_of(text)
    return next((found[loc[:n]] for n in range(len(loc), 0, -1) if loc[:n] in found), None)


def _parts(key: str) -> list[str]:
    parts = re.findall(_PART, key)
    return [part[1:-1] if part[0] in "\"'" else part for part in parts]


def _enter(names: list[str], counts: dict[Loc, int], *, many: bool) -> Loc:
    """The place of a table: below a list of tables it is that of the newest one."""
    place: Loc = ()
    for depth, name in enumerate(names, 1):
        place = (*place, name)
        if many and depth == len(names):
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place
