"""Copies of a text for the operator: a file, and as much as a terminal's clipboard takes.

Over SSH and tmux a clipboard may or may not arrive (OSC 52), so there is always a file whose path
can be told.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from eagle_tui.text import visible

CLIPBOARD_MOST = 70_000
"""Bytes for the clipboard: terminals drop OSC 52 sequences of more than some 100 kB in base64."""
_ODD = re.compile(r"[^\w.-]+")


def copies_dir() -> Path:
    """Where copies are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "eagle-tui" / "copied"


def write_copy(name: str, text: str, directory: Path | None = None) -> Path:
    """Write the text, made harmless for terminals, to a file of that name; gives its path. Only its
    owner can read it. OSError when it cannot be written."""
    directory = directory or copies_dir()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{_ODD.sub('_', name)[:100]}.txt"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(visible(text))
    return path


def for_clipboard(text: str) -> str | None:
    """The text, made harmless for who pastes it into a shell; None when it is too large."""
    text = visible(text)
    return text if len(text.encode()) <= CLIPBOARD_MOST else None
