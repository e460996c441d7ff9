"""`state.sqlite`: commands, attempts, events, and what must survive the supervisor.

The supervisor is the only writer. Every method is one transaction; a command's acceptance and the
desired state that follows from it are written together, so that it takes effect exactly once.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from eagle_tui.proc import Process
from eagle_tui.protocol import CommandStatus, Event, Mark, Severity
from eagle_tui.rundir.desired import Desired
from eagle_tui.supervisor import launches, past, undo
from eagle_tui.supervisor.journal import Journal, command_status
from eagle_tui.supervisor.launches import ServerStore
from eagle_tui.supervisor.past import FOR_EVER, Past

VERSION = 1
KEPT_EVENTS = 200_000
KEPT_MARKS = 10_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commands (
    id TEXT PRIMARY KEY, verb TEXT NOT NULL, args TEXT NOT NULL, origin TEXT NOT NULL,
    state TEXT NOT NULL, at REAL NOT NULL, updated REAL NOT NULL, reason TEXT NOT NULL DEFAULT '',
    seq INTEGER);
CREATE INDEX IF NOT EXISTS commands_by_state ON commands (state);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL,
    token TEXT NOT NULL, pid INTEGER, started INTEGER, url TEXT, launched_at REAL NOT NULL,
    ready_at REAL, ended_at REAL, code INTEGER, signal INTEGER, outcome TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '', UNIQUE (kind, name, number));
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, severity TEXT NOT NULL, source TEXT NOT NULL,
    text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS marks (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS marks_by_time ON marks (at);
"""

Kind = Literal["phase", "server"]


@dataclass(frozen=True)
class Attempt:
    """One launch of a worker or server."""

    id: int
    kind: Kind
    name: str
    number: int
    token: str
    process: Process | None
    url: str | None
    launched_at: float
    ready_at: float | None
    ended_at: float | None
    code: int | None
    signal: int | None
    outcome: str
    reason: str


@dataclass(frozen=True)
class StoredCommand:
    """A command with the desired state's number that it led to."""

    status: CommandStatus
    seq: int | None
    edits: tuple[undo.Edit, ...] = ()
    """What it changed, of what can be put back."""


class StoreError(RuntimeError):
    """The state file cannot be used; the message says why."""


Reading = Literal["live", "still"]
"""Open a state file without writing to it: while a supervisor has it, or when nobody has. `still`
takes the file alone as it is, so it needs no write-ahead log beside it and makes none."""

_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")


def _uri(path: Path, reading: Reading | None) -> str:
    mode = {None: "rwc", "live": "ro", "still": "ro&immutable=1"}[reading]
    return f"file:{quote(str(path))}?mode={mode}"


class Store(Past, Journal):
    """The open state file of a run."""

    def __init__(self, path: Path, *, reading: Reading | None = None) -> None:
        """StoreError when it is no state file, or another version's."""
        script = SCHEMA + past.SCHEMA + launches.SCHEMA
        try:
            self._db = sqlite3.connect(_uri(path, reading), uri=True, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            if reading is None:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            if found not in (0, VERSION):
                raise StoreError(
                    f"{path}: written by another version of eagle-tui (schema {found}, this one "
                    f"reads {VERSION}). Use that version for this run."
                )
            if reading is None:
                self._db.executescript(script)
                self.add_command_columns()
                self._db.execute(f"PRAGMA user_version={VERSION}")
            else:
                self._stand_in(script)
        except sqlite3.DatabaseError as error:
            if reading is not None:
                raise StoreError(f"{path}: {error}") from error
            raise StoreError(
                f"{path}: {error}. Outputs of the phases are not in this file: move it away and "
                "run `eagle-tui up` to go on from them."
            ) from error
        self.servers = ServerStore(self._db)
        if reading is None:
            self.servers.add_columns()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _stand_in(self, script: str) -> None:
        """Empty tables in memory for those that an older program did not have yet."""
        self._db.execute("PRAGMA temp_store=MEMORY")
        there = {row[0] for row in self._db.execute("SELECT name FROM sqlite_master")}
        for statement in script.split(";"):
            made = _TABLE.search(statement)
            if made and made[1] not in there:
                self._db.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE"))

    # -- kept values ------------------------------------------------------------------------------

    def get(self, key: str) -> Any | None:
        """A kept JSON value; None when there is none."""
        row = self._db.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, key: str, value: Any) -> None:
        """Keep a JSON value."""
        self._db.execute(
            "INSERT INTO kept VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, json.dumps(value)),
        )

    def desired(self) -> Desired:
        """The desired state as last accepted; without endpoints, which are not kept."""
        return Desired.model_validate(self.get("desired") or {})

    # -- commands ---------------------------------------------------------------------------------

    def request(self, command: CommandStatus) -> CommandStatus:
        """Store a command unless one of that id is there already; gives what is stored."""
        self._db.execute(
            "INSERT OR IGNORE INTO commands (id, verb, args, origin, state, at, updated) "
            "VALUES (?, ?, ?, ?, 'requested', ?, ?)",
            (
                command.id,
                command.verb,
                json.dumps(command.args),
                command.origin,
                command.at,
                command.at,
            ),
        )
        stored = self.command(command.id)
        assert stored is not None
        return stored.status

    def command(self, command_id: str) -> StoredCommand | None:
        """A command by its id."""
        row = self._db.execute("SELECT * FROM commands WHERE id = ?", (command_id,)).fetchone()
        return None if row is None else _command(row)

    def commands_in(self, *states: str) -> list[StoredCommand]:
        """Commands in these states, in the order in which they came, whatever the clock said."""
        marks = ",".join("?" * len(states))
        sql = f"SELECT * FROM commands WHERE state IN ({marks}) ORDER BY rowid"
        return [_command(row) for row in self._db.execute(sql, states)]

    def commands_like(self, beginning: str) -> list[StoredCommand]:
        """Commands whose id is, or begins with, `beginning`; at most two."""
        sql = "SELECT * FROM commands WHERE substr(id, 1, ?) = ? ORDER BY id = ? DESC LIMIT 2"
        rows = self._db.execute(sql, (len(beginning), beginning, beginning)).fetchall()
        found = [_command(row) for row in rows]
        return found[:1] if found and found[0].status.id == beginning else found

    def undoable(self, limit: int = 50) -> list[StoredCommand]:
        """The newest accepted commands that changed what can be put back, the newest first."""
        sql = (
            "SELECT * FROM commands WHERE undo IS NOT NULL AND state != 'refused' "
            "ORDER BY rowid DESC LIMIT ?"
        )
        return [_command(row) for row in self._db.execute(sql, (limit,))]

    def recent_commands(self, limit: int) -> list[CommandStatus]:
        """The commands that came last, the newest last."""
        sql = "SELECT * FROM commands ORDER BY rowid DESC LIMIT ?"
        return [_command(row).status for row in self._db.execute(sql, (limit,))][::-1]

    def accept(
        self,
        command_id: str,
        desired: Desired,
        at: float,
        todo: dict[str, Any] | None = None,
        also: Callable[[], None] | None = None,
    ) -> None:
        """In one transaction: keep the desired state and what else is to be done (`todo`, under
        that key), write what `also` writes, and mark the command accepted by its `seq`."""
        with self.transaction():
            if also is not None:
                also()
            if todo:
                self.put("todo", [*(self.get("todo") or []), todo])
            self.put("desired", desired.kept().model_dump())
            self._db.execute(
                "UPDATE commands SET state = 'accepted', updated = ?, accepted_at = ?, seq = ? "
                "WHERE id = ?",
                (at, at, desired.seq, command_id),
            )

    def fill(self, command_id: str, args: dict[str, Any]) -> None:
        """Keep the arguments of a command with those that it left open."""
        sql = "UPDATE commands SET args = ? WHERE id = ?"
        self._db.execute(sql, (json.dumps(args), command_id))

    def note(self, command_id: str, sentence: str, edits: Sequence[undo.Edit], words: str) -> None:
        """Keep what a command does, and what it changed with what putting it back does."""
        self._db.execute("UPDATE commands SET sentence = ? WHERE id = ?", (sentence, command_id))
        self.note_undo(command_id, edits, words)

    def note_undo(self, command_id: str, edits: Sequence[undo.Edit], words: str) -> None:
        """Keep what a command changed, with what putting it back does."""
        body = json.dumps({"words": words, "edits": undo.to_json(edits)}) if edits else None
        self._db.execute("UPDATE commands SET undo = ? WHERE id = ?", (body, command_id))

    def settle(self, command_id: str, state: str, reason: str, at: float) -> None:
        """Mark a command `in_effect` or `refused`; or, still `accepted`, say how far it is."""
        ended = None if state == "accepted" else at
        self._db.execute(
            "UPDATE commands SET state = ?, reason = ?, updated = ?, effect_at = ? WHERE id = ?",
            (state, reason, at, ended, command_id),
        )

    # -- attempts ---------------------------------------------------------------------------------

    def begin(
        self,
        kind: Kind,
        name: str,
        token: str,
        at: float,
        url: str | None = None,
        *,
        above: int = 0,
    ) -> int:
        """Record that an attempt is about to be launched, before it is; gives its number, which
        is larger than all before it and than `above`."""
        with self.transaction():
            last = self._db.execute(
                "SELECT COALESCE(MAX(number), 0) FROM attempts WHERE kind = ? AND name = ?",
                (kind, name),
            ).fetchone()[0]
            number = 1 + max(above, int(last))
            self._db.execute(
                "INSERT INTO attempts (kind, name, number, token, url, launched_at) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (kind, name, number, token, url, at),
            )
        return number

    def launched(self, token: str, process: Process) -> None:
        """Record which process the attempt became."""
        self._db.execute(
            "UPDATE attempts SET pid = ?, started = ? WHERE token = ?",
            (process.pid, process.started, token),
        )

    def ready(self, token: str, at: float) -> None:
        """Record that a server answered for the first time."""
        self._db.execute("UPDATE attempts SET ready_at = ? WHERE token = ?", (at, token))

    def ended(
        self,
        token: str,
        at: float,
        *,
        outcome: str,
        reason: str,
        code: int | None = None,
        signal: int | None = None,
    ) -> None:
        """Record how the attempt ended; `code` and `signal` are None when nobody could know."""
        self._db.execute(
            "UPDATE attempts SET ended_at = ?, outcome = ?, reason = ?, code = ?, signal = ? "
            "WHERE token = ?",
            (at, outcome, reason, code, signal, token),
        )

    def open_attempts(self, kind: Kind) -> list[Attempt]:
        """Attempts that have not ended as far as is recorded."""
        sql = "SELECT * FROM attempts WHERE kind = ? AND ended_at IS NULL ORDER BY id"
        return [_attempt(row) for row in self._db.execute(sql, (kind,))]

    def attempts(self, kind: Kind, name: str) -> list[Attempt]:
        """All attempts of a phase or server, the oldest first."""
        sql = "SELECT * FROM attempts WHERE kind = ? AND name = ? ORDER BY number"
        return [_attempt(row) for row in self._db.execute(sql, (kind, name))]

    # -- events -----------------------------------------------------------------------------------

    def event(self, at: float, severity: Severity, source: str, text: str) -> None:
        """Append to the run's history."""
        self._db.execute(
            "INSERT INTO events (at, severity, source, text) VALUES (?, ?, ?, ?)",
            (at, severity, source, text),
        )
        self._db.execute(
            "DELETE FROM events WHERE id <= (SELECT MAX(id) FROM events) - ?", (KEPT_EVENTS,)
        )

    def events(self, after: int, limit: int, until: float = FOR_EVER) -> list[Event]:
        """The newest `limit` events with an id above `after` that were told until then, the oldest
        first."""
        sql = "SELECT * FROM events WHERE id > ? AND at <= ? ORDER BY id DESC LIMIT ?"
        return [Event(**dict(row)) for row in self._db.execute(sql, (after, until, limit))][::-1]

    def last_event_at(self) -> float:
        """Unix time of the newest event; 0 when there is none."""
        row = self._db.execute("SELECT at FROM events ORDER BY id DESC LIMIT 1").fetchone()
        return 0.0 if row is None else float(row[0])

    # -- marks ------------------------------------------------------------------------------------

    def mark(self, at: float, kind: str, text: str) -> None:
        """Mark a moment for the charts: what changed then, in a few words."""
        self._db.execute("INSERT INTO marks (at, kind, text) VALUES (?, ?, ?)", (at, kind, text))
        self._db.execute(
            "DELETE FROM marks WHERE id <= (SELECT MAX(id) FROM marks) - ?", (KEPT_MARKS,)
        )

    def marks(self, since: float, limit: int = 1000, until: float = FOR_EVER) -> list[Mark]:
        """The newest `limit` marks from Unix time `since` to `until`, the oldest first."""
        sql = "SELECT * FROM marks WHERE at BETWEEN ? AND ? ORDER BY at DESC, id DESC LIMIT ?"
        return [Mark(**dict(row)) for row in self._db.execute(sql, (since, until, limit))][::-1]


def _command(row: sqlite3.Row) -> StoredCommand:
    kept = row["undo"] if "undo" in set(row.keys()) else None
    return StoredCommand(
        command_status(row), row["seq"], undo.from_json(json.loads(kept)["edits"] if kept else [])
    )


def _attempt(row: sqlite3.Row) -> Attempt:
    known = row["pid"] is not None
    return Attempt(
        id=row["id"],
        kind=row["kind"],
        name=row["name"],
        number=row["number"],
        token=row["token"],
        process=Process(row["pid"], row["started"]) if known else None,
        url=row["url"],
        launched_at=row["launched_at"],
        ready_at=row["ready_at"],
        ended_at=row["ended_at"],
        code=row["code"],
        signal=row["signal"],
        outcome=row["outcome"],
        reason=row["reason"],
    )
