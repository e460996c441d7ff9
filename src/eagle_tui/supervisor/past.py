"""The part of `state.sqlite` from which a run is shown as it was: history, snapshots, estimates.

`Store` is the whole file; this is a base of it. Rows are made and read by `eagle_tui.history` and
`eagle_tui.snapshots`, and are bounded there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from eagle_tui.protocol import Estimate

SCHEMA = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS ticks (
    step INTEGER NOT NULL, t INTEGER NOT NULL, row BLOB NOT NULL,
    PRIMARY KEY (step, t)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshots (t REAL PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS estimates (
    id INTEGER PRIMARY KEY, phase TEXT NOT NULL, at REAL NOT NULL, attempt INTEGER NOT NULL,
    elapsed_s REAL, done INTEGER, total INTEGER, low REAL NOT NULL, middle REAL NOT NULL,
    high REAL NOT NULL);
"""
ESTIMATES_KEPT = 2000
FOR_EVER = 1e18
"""Later than any Unix time."""


class Past:
    """Tables of what was, on an open connection."""

    _db: sqlite3.Connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. Transactions do not nest."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite ends some by itself, as on a full disk; one left open would hinder all later.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    # -- history ----------------------------------------------------------------------------------

    def series(self) -> dict[str, int]:
        """Every series that was ever recorded, with its number in the rows."""
        return {str(name): int(n) for name, n in self._db.execute("SELECT name, id FROM series")}

    def add_series(self, name: str) -> int:
        """Give a series a number."""
        self._db.execute("INSERT OR IGNORE INTO series (name) VALUES (?)", (name,))
        found = self._db.execute("SELECT id FROM series WHERE name = ?", (name,)).fetchone()
        return int(found[0])

    def put_ticks(self, rows: list[tuple[int, int, bytes]]) -> None:
        """Write rows of history (step, t, row), all or none; one that is there is replaced."""
        with self.transaction():
            self._db.executemany("INSERT OR REPLACE INTO ticks VALUES (?, ?, ?)", rows)

    def ticks(self, step: int, since: float, until: float) -> Iterator[tuple[int, bytes]]:
        """Rows of history (t, row) of one tier with `since` ≤ t ≤ `until`, in order."""
        sql = "SELECT t, row FROM ticks WHERE step = ? AND t BETWEEN ? AND ? ORDER BY t"
        for t, row in self._db.execute(sql, (step, since, until)):
            yield int(t), bytes(row)

    def drop_ticks(self, step: int, before: float) -> None:
        """Forget the rows of a tier that are older than `before`."""
        self._db.execute("DELETE FROM ticks WHERE step = ? AND t < ?", (step, before))

    # -- snapshots --------------------------------------------------------------------------------

    def put_snapshot(self, at: float, body: bytes) -> None:
        """Keep a snapshot of the status."""
        self._db.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (at, body))

    def snapshot(self, at: float) -> tuple[float, bytes] | None:
        """The newest snapshot not after Unix time `at`; None when there is none."""
        sql = "SELECT t, body FROM snapshots WHERE t <= ? ORDER BY t DESC LIMIT 1"
        row = self._db.execute(sql, (at,)).fetchone()
        return None if row is None else (float(row[0]), bytes(row[1]))

    def snapshot_span(self) -> tuple[float, float] | None:
        """Unix times of the first and the last snapshot; None when there is none."""
        low, high = self._db.execute("SELECT MIN(t), MAX(t) FROM snapshots").fetchone()
        return None if low is None else (float(low), float(high))

    def thin_snapshots(self, since: float, before: float, step_s: float) -> None:
        """Of the snapshots in [since, before), keep the first of every `step_s` seconds."""
        self._db.execute(
            "DELETE FROM snapshots WHERE t >= ? AND t < ? AND t NOT IN "
            "(SELECT MIN(t) FROM snapshots WHERE t >= ? AND t < ? GROUP BY CAST(t / ? AS INTEGER))",
            (since, before, since, before, step_s),
        )

    # -- estimates --------------------------------------------------------------------------------

    def add_estimate(self, e: Estimate) -> None:
        """Keep what was estimated of a phase at a moment of it."""
        self._db.execute(
            "INSERT INTO estimates (phase, at, attempt, elapsed_s, done, total, low, middle, high) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (e.phase, e.at, e.attempt, e.elapsed_s, e.done, e.total, *e.eta_s),
        )
        self._db.execute(
            "DELETE FROM estimates WHERE id <= (SELECT MAX(id) FROM estimates) - ?",
            (ESTIMATES_KEPT,),
        )

    def estimates(self) -> list[Estimate]:
        """All that was estimated, the oldest first."""
        return [
            Estimate(
                phase=row["phase"],
                at=row["at"],
                attempt=row["attempt"],
                elapsed_s=row["elapsed_s"],
                done=row["done"],
                total=row["total"],
                eta_s=(row["low"], row["middle"], row["high"]),
            )
            for row in self._db.execute("SELECT * FROM estimates ORDER BY id")
        ]
