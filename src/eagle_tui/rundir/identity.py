"""Which directory a path stands for now: a path alone may be moved, copied or replaced."""

from __future__ import annotations

from pathlib import Path


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode: kept by a directory that is moved, and other ones in a copy. None when
    nothing is there; OSError when nobody can know, as behind a directory of another owner."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino
