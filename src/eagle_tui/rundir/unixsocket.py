"""Unix sockets below paths of any length: their addresses may hold some hundred bytes only."""

from __future__ import annotations

import functools
import os
from pathlib import Path

MOST_BYTES = 100
"""An address may have 108 bytes on Linux and 104 on macOS, the final NUL included."""


def address(path: Path) -> str:
    """A name of `path` that is short enough for `bind` and `connect`: the path itself, or one by
    way of a descriptor of its directory, which this process then keeps open. OSError when the
    directory is missing, or where the system knows no such descriptors."""
    if len(os.fsencode(path)) <= MOST_BYTES:
        return str(path)
    if not Path("/proc/self/fd").is_dir():
        raise OSError(f"{path}: too long for a socket; choose a run directory with a shorter path")
    return f"/proc/self/fd/{_descriptor(path.parent)}/{path.name}"


@functools.cache
def _descriptor(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
