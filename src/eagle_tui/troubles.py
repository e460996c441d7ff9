"""What the system refused, in words: what, where, what to do. Pure but for the user's name."""

from __future__ import annotations

import errno
import os
import sqlite3
from dataclasses import dataclass

_ROOM = ("no space is left on the disk", "make room")
_READONLY = (
    "the file system is mounted read-only",
    "mount it for writing (if the kernel did that by itself, `dmesg` says why), or copy the run to "
    "another disk",
)
_ILL = (
    "the disk answers with an error",
    "look at the kernel log (`dmesg`), and copy the run to another disk while it can be read",
)
_WORDS: dict[int, tuple[str, str]] = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: ("the disk quota of this user is used up", "make room, or have it raised"),
    errno.EROFS: _READONLY,
    errno.EIO: _ILL,
    errno.ESTALE: ("the network file system has lost it", "mount it anew"),
    errno.EFBIG: ("the file would be larger than is allowed", "raise `ulimit -f`"),
    errno.EMFILE: ("too many files are open", "raise `ulimit -n`"),
    errno.ENFILE: ("too many files are open on this machine", "raise fs.file-max"),
    errno.ENAMETOOLONG: ("the path is too long", "use a shorter one"),
    errno.ENOTDIR: ("a part of the path is a file, not a directory", "check the path"),
    errno.EISDIR: ("there is a directory where a file should be", "move it away"),
    errno.ENOENT: ("there is no such file or directory", ""),
    errno.EEXIST: ("something else stands there already", "move it away"),
    errno.EADDRINUSE: ("the address is taken", "see who has it"),
}
_REFUSED = (errno.EACCES, errno.EPERM)

_LOCKED = (
    "another program holds the state file",
    "close what has state.sqlite open, such as a database shell or a backup",
)
_DAMAGED = (
    "the state file is damaged",
    "outputs of the phases are not in it: end the supervisor, move state.sqlite and what begins "
    "with its name away, and run `eagle-tui up` to go on from them",
)
_STATE_READONLY = (
    "the state file cannot be written",
    "see its owner and mode, and whether its file system is mounted read-only",
)
_STATE_CLOSED = (
    "the state file cannot be opened",
    "see the owner and mode of it and its directory",
)
_SQLITE: tuple[tuple[str, tuple[str, str]], ...] = (
    ("is full", _ROOM),
    ("disk i/o error", _ILL),
    ("readonly", _STATE_READONLY),
    ("locked", _LOCKED),
    ("malformed", _DAMAGED),
    ("not a database", _DAMAGED),
    ("unable to open", _STATE_CLOSED),
)
"""A piece of SQLite's message, and what it means. The messages are the same in every version."""


@dataclass(frozen=True)
class Trouble:
    """One thing that went wrong."""

    what: str
    remedy: str = ""
    """What to do; empty when nothing can be advised."""

    @property
    def sentence(self) -> str:
        """Both."""
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


def of(error: Exception) -> Trouble:
    """An error of the system or of the state file in words; of another kind, as it says itself."""
    if isinstance(error, sqlite3.Error):
        message = str(error)
        found = next((words for piece, words in _SQLITE if piece in message.lower()), None)
        return Trouble(f"{found[0]} ({message})", found[1]) if found else Trouble(message)
    if not isinstance(error, OSError) or error.errno is None:
        return Trouble(str(error) or type(error).__name__)
    if error.errno in _REFUSED:
        what = f"not permitted for the user {_user()}"
        remedy = "use the user to whom it belongs, or change its owner or mode"
    else:
        what, remedy = _WORDS.get(error.errno, (error.strerror or str(error), ""))
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return Trouble(f"{where}: {what}" if where else what, remedy)


def _user() -> str:
    return f"{os.environ.get('USER', '')} (uid {os.getuid()})".strip()
