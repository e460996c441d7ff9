"""Opening a run's state file without ever writing to the run directory.

SQLite would make files beside a database in write-ahead mode even to read it. So a file that nobody
has open is read as it is; one whose log was not written back (its supervisor was killed, or it was
copied so) is copied with it to a place of our own first.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path

from eagle_tui.supervisor.store import Store


class Opened:
    """A state file that is read. Close it."""

    def __init__(self, path: Path, *, live: bool) -> None:
        """`live`: a supervisor has it now. StoreError when it is none, OSError when it cannot be
        read."""
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        log = path.with_name(path.name + "-wal")
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no state file; the run was never started")
        if live:
            self.store = Store(path, reading="live")
        elif log.exists() and log.stat().st_size:
            self._copy = tempfile.TemporaryDirectory(prefix="eagle-tui-replay-")
            there = Path(self._copy.name) / path.name
            shutil.copyfile(path, there)
            shutil.copyfile(log, there.with_name(log.name))
            with contextlib.closing(sqlite3.connect(there)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.store = Store(there, reading="still")
        else:
            self.store = Store(path, reading="still")

    def close(self) -> None:
        """Give it back; a copy is removed."""
        self.store.close()
        if self._copy is not None:
            self._copy.cleanup()
