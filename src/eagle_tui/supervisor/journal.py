"""Events and commands as one journal, read in pages in the order of time. A base of `Store`.

Both tables are walked by their row numbers, side by side, so a page costs no more at the end of a
run of weeks than at its beginning.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from eagle_tui.protocol import CommandStatus, Event, Severity
from eagle_tui.records import JournalEntry, JournalMark, JournalPage, JournalQuery
from eagle_tui.text import plain

COMMAND_COLUMNS = {
    "accepted_at": "REAL",
    "effect_at": "REAL",
    "sentence": "TEXT NOT NULL DEFAULT ''",
    "undo": "TEXT",
}
"""Columns of `commands` that a state file of an older program does not have yet."""
_FROM: dict[Severity, tuple[str, ...]] = {
    "info": ("info", "warning", "error"),
    "warning": ("warning", "error"),
    "error": ("error",),
}
MOST = 1000

_Found = list[tuple[float, int, JournalEntry]]


class Journal:
    """Reads events and commands on an open connection."""

    _db: sqlite3.Connection

    def add_command_columns(self) -> None:
        """Bring the table of an older program up to date."""
        there = self._columns()
        for name, kind in COMMAND_COLUMNS.items():
            if name not in there:
                self._db.execute(f"ALTER TABLE commands ADD COLUMN {name} {kind}")

    def _columns(self) -> set[str]:
        return {row["name"] for row in self._db.execute("PRAGMA table_info(commands)")}

    def journal(self, query: JournalQuery, until: float) -> JournalPage:
        """One page; nothing of after Unix time `until`."""
        limit = min(max(query.limit, 1), MOST)
        newer = query.after is not None and query.before is None
        mark = query.after if newer else query.before
        # Pinned, so that what comes later is never taken for a part of an older page.
        start = mark or _moved(self._newest(until), 1)
        events = self._events(query, until, start.event, newer, limit)
        commands = self._commands(query, until, start.command, newer, limit)
        merged = _merge(events, commands, newer)[:limit]
        if not newer:
            merged.reverse()
        # The next page begins where this one ends, in each of the two tables.
        choose = max if newer else min
        end = JournalMark(
            event=choose([start.event, *(n for _, n, e in merged if e.event is not None)]),
            command=choose([start.command, *(n for _, n, e in merged if e.command is not None)]),
        )
        whole = len(events) < limit and len(commands) < limit
        return JournalPage(
            entries=tuple(entry for _, _, entry in merged),
            before=_moved(start, 1) if newer else end,
            after=end if newer else _moved(start, -1),
            done=whole and len(events) + len(commands) <= limit,
        )

    def _newest(self, until: float) -> JournalMark:
        """The mark after all that there is."""
        found = []
        for table, key in (("events", "id"), ("commands", "rowid")):
            sql = f"SELECT {key} FROM {table} WHERE at <= ? ORDER BY {key} DESC LIMIT 1"
            row = self._db.execute(sql, (until,)).fetchone()
            found.append(0 if row is None else int(row[0]))
        return JournalMark(event=found[0], command=found[1])

    def _events(
        self, query: JournalQuery, until: float, mark: int, newer: bool, limit: int
    ) -> _Found:
        where = ["at <= ?"]
        values: list[Any] = [until]
        for column, text in (("source", query.source), ("text", query.text)):
            if text:
                where.append(f"{column} LIKE ? ESCAPE '!'")
                values.append(_like(text))
        if query.severity is not None:
            levels = _FROM[query.severity]
            where.append(f"severity IN ({','.join('?' * len(levels))})")
            values += levels
        rows = self._rows("events", "id", where, values, mark, newer, limit)
        found = []
        for row in rows:
            body = {key: row[key] for key in ("id", "at", "severity", "source", "text")}
            event = Event.model_validate(body)
            found.append((event.at, event.id, JournalEntry(at=event.at, event=event)))
        return found

    def _commands(
        self, query: JournalQuery, until: float, mark: int, newer: bool, limit: int
    ) -> _Found:
        if query.severity == "error":
            return []
        where = ["at <= ?"]
        values: list[Any] = [until]
        if query.severity == "warning":
            where.append("state = 'refused'")
        if query.source:
            where.append("origin LIKE ? ESCAPE '!'")
            values.append(_like(query.source))
        if query.text:
            sentence = "sentence" if "sentence" in self._columns() else "''"
            said = f"(verb || ' ' || args || ' ' || reason || ' ' || {sentence})"
            where.append(f"{said} LIKE ? ESCAPE '!'")
            values.append(_like(query.text))
        rows = self._rows("commands", "rowid", where, values, mark, newer, limit)
        found = []
        for row in rows:
            command = as_of(command_status(row), until)
            entry = JournalEntry(at=command.at, command=command)
            found.append((command.at, int(row["number"]), entry))
        return found

    def _rows(
        self,
        table: str,
        key: str,
        where: list[str],
        values: list[Any],
        mark: int,
        newer: bool,
        limit: int,
    ) -> list[sqlite3.Row]:
        side, order = (">", "ASC") if newer else ("<", "DESC")
        sql = (
            f"SELECT *, {key} AS number FROM {table} WHERE {key} {side} ? AND "
            f"{' AND '.join(where)} ORDER BY {key} {order} LIMIT ?"
        )
        return self._db.execute(sql, (mark, *values, limit)).fetchall()


def _moved(mark: JournalMark, by: int) -> JournalMark:
    """The same place as a mark of the other side: `before` and `after` leave out what they name."""
    return JournalMark(event=mark.event + by, command=mark.command + by)


def command_status(row: sqlite3.Row) -> CommandStatus:
    """A row of `commands`. Its arguments came from outside and are shown also when they were
    refused: so nothing is left in them that could not be sent on."""
    there = set(row.keys())
    undo = json.loads(row["undo"]) if "undo" in there and row["undo"] else None
    return CommandStatus(
        id=row["id"],
        verb=row["verb"],
        args=plain(json.loads(row["args"])),
        state=row["state"],
        at=row["at"],
        reason=row["reason"],
        origin=row["origin"],
        accepted_at=row["accepted_at"] if "accepted_at" in there else None,
        effect_at=row["effect_at"] if "effect_at" in there else None,
        sentence=row["sentence"] if "sentence" in there else "",
        undo=undo["words"] if undo else "",
    )


def as_of(command: CommandStatus, until: float) -> CommandStatus:
    """A command as far as it was at Unix time `until`."""
    changes: dict[str, Any] = {}
    if command.effect_at is not None and command.effect_at > until:
        changes = {"effect_at": None, "reason": ""}
        changes["state"] = "requested" if command.state == "refused" else "accepted"
    if command.accepted_at is not None and command.accepted_at > until:
        changes |= {"accepted_at": None, "state": "requested", "sentence": "", "undo": ""}
    return command.model_copy(update=changes) if changes else command


def _merge(events: _Found, commands: _Found, newer: bool) -> _Found:
    """Both in one order of time, each in its own order, also when a clock was set back."""
    before: Callable[[float, float], bool] = (
        (lambda a, b: a <= b) if newer else (lambda a, b: a > b)
    )
    out: _Found = []
    i = j = 0
    while i < len(events) or j < len(commands):
        take = j >= len(commands) or (i < len(events) and before(events[i][0], commands[j][0]))
        out.append(events[i] if take else commands[j])
        i, j = (i + 1, j) if take else (i, j + 1)
    return out


def _like(text: str) -> str:
    """A pattern that finds the text anywhere."""
    for sign in ("!", "%", "_"):
        text = text.replace(sign, "!" + sign)
    return f"%{text}%"
