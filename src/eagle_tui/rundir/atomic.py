"""Files that are whole or not there: temp + fsync + rename."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from eagle_tui.text import parse_json, scrub


def fsync_dir(path: Path) -> None:
    """Force a directory's entries to disk, so that a rename in it survives a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_bytes(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` by `data` in one step. On any error (OSError) the old file stays. A file that
    is there keeps its mode: it may hold what only its owner shall read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(path.stat().st_mode)
    fd, temp = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temp).chmod(mode)
        Path(temp).replace(path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            Path(temp).unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a failed write does not say of what
        raise
    fsync_dir(path.parent)


def remove_left(path: Path) -> None:
    """Remove the copies of a file that were being written when their writer was killed. Only for
    whoever alone writes it."""
    prefix, suffix = f".{path.name}.", ".tmp"
    for left in path.parent.glob(f"{glob.escape(prefix)}*{suffix}"):
        if "." not in left.name[len(prefix) : -len(suffix)]:  # else it is another file's
            left.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, mode: int = 0o644) -> None:
    """As `write_bytes`, in UTF-8; lone surrogates become U+FFFD."""
    write_bytes(path, scrub(text).encode(), mode=mode)


def write_json(path: Path, body: Any, *, mode: int = 0o644) -> None:
    """As `write_bytes`, as indented JSON with a final newline. NaN is refused (ValueError)."""
    text = json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (scrub(text) + "\n").encode(), mode=mode)


def read_json(path: Path) -> Any | None:
    """The file's JSON; None when there is no file. A broken file is a ValueError that names it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise ValueError(f"{path}: a directory, not a file") from None
    try:
        return parse_json(data)
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from error
