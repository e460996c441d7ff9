"""Runs near a directory that is none: what the operator most likely meant."""

from __future__ import annotations

import os
from pathlib import Path

MOST = 5
"""Runs that are named; more would be a list to search instead of an answer."""
_LOOKED_AT = 500
"""Entries of a directory that are looked at: home directories and data sets can be huge."""


def is_run(path: Path) -> bool:
    """Whether there is a run.toml (or the state of a copied run)."""
    try:
        return (path / "run.toml").is_file() or (path / "state.sqlite").is_file()
    except OSError:
        return False


def nearby(path: Path) -> list[Path]:
    """Runs around `path`, the likeliest first: the one that it lies in, those in it, those beside
    it. At most `MOST`. Does not go deeper than two levels and never fails."""
    found: list[Path] = []
    start = path if path.is_dir() else path.parent
    above = (parent for parent in (start, *start.parents) if is_run(parent))
    found += list(above)[:1]
    for place in (start, start.parent):
        for child in _children(place):
            found += [item for item in (child, *_children(child)) if is_run(item)]
            if len(found) > MOST:
                break
    return list(dict.fromkeys(found))[:MOST]


def _children(path: Path) -> list[Path]:
    """Directories in a directory, by name; hidden ones left out."""
    try:
        with os.scandir(path) as entries:
            names = [
                entry.name
                for _, entry in zip(range(_LOOKED_AT), entries, strict=False)
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [path / name for name in sorted(names)]
