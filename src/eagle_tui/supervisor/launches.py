"""What is kept of servers beside their attempts: settings of each launch, and changes of settings.

Two tables in `state.sqlite`. A launch's row is written before that of its attempt, which is written
before the process is started; one without an attempt is of a supervisor that died between them, and
means nothing. A change of settings (retune) carries the step that it has come to, so that the next
supervisor goes on from there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from eagle_tui.protocol import Launch, RetuneStatus, RetuneStep

SCHEMA = """
CREATE TABLE IF NOT EXISTS launches (
    token TEXT PRIMARY KEY, server TEXT NOT NULL, settings TEXT NOT NULL, same TEXT NOT NULL,
    retune INTEGER, kv_tokens INTEGER, gpu_before TEXT, remedy TEXT NOT NULL DEFAULT '',
    rule TEXT NOT NULL DEFAULT '', effect TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS launches_by_server ON launches (server);
CREATE TABLE IF NOT EXISTS retunes (
    id INTEGER PRIMARY KEY, command TEXT NOT NULL, server TEXT NOT NULL, changes TEXT NOT NULL,
    before TEXT NOT NULL, after TEXT NOT NULL, words TEXT NOT NULL, step TEXT NOT NULL,
    at REAL NOT NULL, updated REAL NOT NULL, reason TEXT NOT NULL DEFAULT '',
    resumed_at REAL, paused_at REAL, effect TEXT, in_flight TEXT NOT NULL DEFAULT 'hold');
CREATE INDEX IF NOT EXISTS retunes_by_step ON retunes (step);
"""
ENDS: tuple[RetuneStep, ...] = ("done", "rolled_back", "refused")
LOST = "lost"
"""In place of a diagnosis: it ended while nobody was there to see how, and its log is silent."""
InFlight = Literal["hold", "drain", "abort"]
"""What becomes of the requests in flight on a server that is stopped to be retuned: ended, with
their tokens kept; waited for; thrown away."""
Settings = Mapping[str, str | None]
"""What is retuned over run.toml: setting → value; None: the flag of run.toml is left out."""


@dataclass(frozen=True)
class Retune:
    """One change of one server's settings."""

    id: int
    command: str
    server: str
    changes: Settings
    """As asked for: None leaves the flag out; see `tuning.settings`."""
    before: Settings
    after: Settings
    words: str
    step: RetuneStep
    at: float
    updated: float
    reason: str
    paused_at: float | None
    """Unix time at which the server got no new work any more."""
    resumed_at: float | None
    """Unix time at which it had work again."""
    effect: str | None
    """None: not measured yet."""
    in_flight: InFlight = "hold"

    @property
    def open(self) -> bool:
        """It has not come to its end."""
        return self.step not in ENDS

    def status(self) -> RetuneStatus:
        """For the snapshot."""
        return RetuneStatus(
            id=self.id,
            server=self.server,
            step=self.step,
            changes=self.words,
            at=self.at,
            updated=self.updated,
            reason=self.reason,
            effect=self.effect or "",
        )


@dataclass(frozen=True)
class Try:
    """One launch for a change of settings."""

    ready: bool
    ended: bool
    reason: str
    rule: str
    """The rule that explained its end; empty: none did, or it has not ended."""
    lived_s: float | None
    """Seconds from ready to its end; None: it was not ready, or has not ended."""


class Order(Protocol):
    """What is recorded of an order (`tuning.order.RetuneOrder`)."""

    @property
    def server(self) -> str: ...
    @property
    def changes(self) -> Settings: ...
    @property
    def before(self) -> Settings: ...
    @property
    def after(self) -> Settings: ...
    @property
    def words(self) -> str: ...
    @property
    def in_flight(self) -> InFlight: ...


class ServerStore:
    """The two tables, in an open state file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add_columns(self) -> None:
        """Bring the tables of an older program up to date."""
        there = {row["name"] for row in self._db.execute("PRAGMA table_info(retunes)")}
        if "in_flight" not in there:
            kind = "TEXT NOT NULL DEFAULT 'hold'"
            self._db.execute(f"ALTER TABLE retunes ADD COLUMN in_flight {kind}")

    # -- launches ---------------------------------------------------------------------------------

    def launching(
        self,
        token: str,
        server: str,
        settings: Settings,
        same: str,
        retune: int | None,
        gpu_before: dict[int, int] | None,
    ) -> None:
        """Record with what a server is about to be launched. `same`: equal for equal command
        lines. `gpu_before`: bytes in use by GPU, None when they are not known."""
        self._db.execute(
            "INSERT INTO launches (token, server, settings, same, retune, gpu_before) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (token, server, json.dumps(dict(settings)), same, retune, json.dumps(gpu_before)),
        )

    def settings_of(self, token: str) -> tuple[Settings, int | None]:
        """Settings and change that a launch was made for; none and None when it is not known."""
        sql = "SELECT settings, retune FROM launches WHERE token = ?"
        row = self._db.execute(sql, (token,)).fetchone()
        return ({}, None) if row is None else (json.loads(row[0]), row[1])

    def gpu_before(self, token: str) -> dict[int, int] | None:
        """Bytes in use by GPU before the launch; None when they are not known."""
        sql = "SELECT gpu_before FROM launches WHERE token = ?"
        row = self._db.execute(sql, (token,)).fetchone()
        found = json.loads(row[0]) if row and row[0] else None
        return None if found is None else {int(k): int(v) for k, v in found.items()}

    def pool(self, token: str, kv_tokens: int) -> None:
        """Record the size of the KV pool that it came up with."""
        self._db.execute("UPDATE launches SET kv_tokens = ? WHERE token = ?", (kv_tokens, token))

    def diagnosed(self, token: str, rule: str, remedy: str) -> None:
        """Record by which rule its end was explained, and what can be done about it."""
        sql = "UPDATE launches SET rule = ?, remedy = ? WHERE token = ?"
        self._db.execute(sql, (rule, remedy, token))

    def last_start_s(self, server: str, same: str) -> float | None:
        """Seconds that the last good start took: with the same command line if there was one, else
        any start of the server."""
        row = self._db.execute(
            "SELECT a.ready_at - a.launched_at FROM attempts a "
            "JOIN launches l ON l.token = a.token "
            "WHERE a.kind = 'server' AND a.name = ? AND a.ready_at IS NOT NULL "
            "ORDER BY l.same = ? DESC, a.id DESC LIMIT 1",
            (server, same),
        ).fetchone()
        return None if row is None else max(0.0, float(row[0]))

    def launches(self, server: str | None = None, limit: int = 200) -> list[Launch]:
        """The newest launches, the oldest first."""
        return read_launches(self._db, server, limit)

    def tries(self, retune: int, settings: Settings) -> list[Try]:
        """What became of the launches of a change with these settings, the oldest first; without
        those that were stopped by order, which say nothing of the settings."""
        sql = (
            "SELECT a.ready_at, a.ended_at, a.reason, l.rule, l.settings FROM launches l "
            "JOIN attempts a ON a.token = l.token "
            "WHERE l.retune = ? AND a.outcome IS NOT 'stopped' ORDER BY a.id"
        )
        return [
            Try(
                ready is not None,
                ended is not None,
                reason,
                rule,
                ready and ended and ended - ready,
            )
            for ready, ended, reason, rule, text in self._db.execute(sql, (retune,))
            if json.loads(text) == dict(settings)
        ]

    # -- changes of settings ----------------------------------------------------------------------

    def add_retune(self, command: str, order: Order, at: float) -> None:
        """Record that a change is asked for, within the transaction of its command."""
        self._db.execute(
            "INSERT INTO retunes "
            "(command, server, changes, before, after, words, step, at, updated, in_flight) "
            "VALUES (?, ?, ?, ?, ?, ?, 'requested', ?, ?, ?)",
            (
                *(command, order.server),
                *(json.dumps(dict(d)) for d in (order.changes, order.before, order.after)),
                *(order.words, at, at, order.in_flight),
            ),
        )

    def specify(self, retune: int, order: Order) -> None:
        """What a change comes to, now that the server's own flags are known."""
        self._db.execute(
            "UPDATE retunes SET before = ?, after = ?, words = ? WHERE id = ?",
            (json.dumps(dict(order.before)), json.dumps(dict(order.after)), order.words, retune),
        )

    def retunes(self, *, open_only: bool = False, command: str | None = None) -> list[Retune]:
        """Changes of settings, the oldest first."""
        sql = "SELECT * FROM retunes"
        args: list[str] = []
        where: list[str] = []
        if open_only:
            where.append(f"step NOT IN ({','.join('?' * len(ENDS))})")
            args += [*ENDS]
        if command is not None:
            where.append("command = ?")
            args.append(command)
        if where:
            sql += " WHERE " + " AND ".join(where)
        return [_retune(row) for row in self._db.execute(sql + " ORDER BY id", args)]

    def unmeasured(self) -> list[Retune]:
        """Changes in force whose effect was not measured yet, the oldest first."""
        sql = "SELECT * FROM retunes WHERE step = 'done' AND effect IS NULL ORDER BY id"
        return [_retune(row) for row in self._db.execute(sql)]

    def step(self, retune: int, step: RetuneStep, at: float, **also: Any) -> None:
        """A change came to a step. `also`: reason, paused_at, resumed_at."""
        names = ["step = ?", "updated = ?", *(f"{name} = ?" for name in also)]
        self._db.execute(
            f"UPDATE retunes SET {', '.join(names)} WHERE id = ?",
            (step, at, *also.values(), retune),
        )

    def effect(self, retune: int, sentence: str) -> None:
        """What a change brought; also told with the launches that were made for it."""
        self._db.execute("UPDATE retunes SET effect = ? WHERE id = ?", (sentence, retune))
        self._db.execute("UPDATE launches SET effect = ? WHERE retune = ?", (sentence, retune))


def read_launches(db: sqlite3.Connection, server: str | None, limit: int) -> list[Launch]:
    """The newest launches in a state file, the oldest first. Rows of the connection are
    `sqlite3.Row`."""
    rows = db.execute(
        "SELECT a.*, l.settings, l.retune, l.kv_tokens, l.remedy, l.effect FROM attempts a "
        "LEFT JOIN launches l ON l.token = a.token "
        "WHERE a.kind = 'server' AND (? IS NULL OR a.name = ?) ORDER BY a.id DESC LIMIT ?",
        (server, server, limit),
    )
    return [_launch(row) for row in rows][::-1]


def _launch(row: sqlite3.Row) -> Launch:
    ready = row["ready_at"]
    return Launch(
        server=row["name"],
        attempt=row["number"],
        launched_at=row["launched_at"],
        ready_at=ready,
        ended_at=row["ended_at"],
        start_s=None if ready is None else max(0.0, ready - row["launched_at"]),
        outcome=row["outcome"] if row["ended_at"] is not None else "running",
        reason=row["reason"],
        remedy=row["remedy"] or "",
        settings=json.loads(row["settings"]) if row["settings"] else {},
        retune=row["retune"],
        kv_tokens=row["kv_tokens"],
        effect=row["effect"] or "",
    )


def _retune(row: sqlite3.Row) -> Retune:
    return Retune(
        id=row["id"],
        command=row["command"],
        server=row["server"],
        changes=json.loads(row["changes"]),
        before=json.loads(row["before"]),
        after=json.loads(row["after"]),
        words=row["words"],
        step=row["step"],
        at=row["at"],
        updated=row["updated"],
        reason=row["reason"],
        paused_at=row["paused_at"],
        resumed_at=row["resumed_at"],
        effect=row["effect"],
        in_flight=row["in_flight"],
    )
