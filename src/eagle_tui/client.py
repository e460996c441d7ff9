"""The socket client: asks a run's supervisor, and has one started again that is gone.

Whoever wants to see or steer a run goes through here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import uuid
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from eagle_tui import troubles
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import (
    CommandStatus,
    Estimate,
    Event,
    History,
    Launch,
    Mark,
    Preview,
    Status,
    Tuning,
)
from eagle_tui.reach import Down, ensure_supervisor, halted, http_to, last_status, rests
from eagle_tui.reader.files import RunFiles
from eagle_tui.records import JournalPage, JournalQuery
from eagle_tui.rundir.paths import RunDir
from eagle_tui.unixhttp import NoAnswer
from eagle_tui.versions import read_status

REVIVE_S = 5.0
"""Least time between two tries to start a supervisor that is gone."""


class SocketClient(RunFiles):
    """`RunClient` over the run's unix socket. Use as an async context manager, or `close` it."""

    def __init__(self, run: RunDir, *, origin: str = "cli", revive: bool = True) -> None:
        super().__init__(run)
        self._run = run
        self._origin = f"{origin}:{os.environ.get('USER', os.getuid())}"
        self._revive = revive
        self._tried = float("-inf")
        self._http = http_to(run)

    @property
    def readonly(self) -> str:
        """Empty: a supervisor takes orders."""
        return ""

    async def __aenter__(self) -> SocketClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End what was opened."""
        await self.leave()
        await self.close_files()

    async def leave(self) -> None:
        """Give the connections back; they are made anew when they are needed again."""
        await self._http.close()

    async def status(self) -> Status:
        """The newest snapshot."""
        body = await self._ask("GET", "/v1/status")
        try:
            return read_status(body)
        except ValueError as error:
            raise ClientError(str(error)) from error

    async def events(self, after: int, limit: int) -> list[Event]:
        """The run's history; see `RunClient`."""
        body = await self._ask("GET", "/v1/events", params={"after": after, "limit": limit})
        return _rows(Event, body, "events")

    async def journal(self, query: JournalQuery) -> JournalPage:
        """Events and commands; see `RunClient`."""
        params: dict[str, Any] = {"limit": query.limit, "source": query.source, "text": query.text}
        for name, mark in (("before", query.before), ("after", query.after)):
            if mark is not None:
                params[name] = f"{mark.event}.{mark.command}"
        if query.severity is not None:
            params["severity"] = query.severity
        return _read(JournalPage, await self._ask("GET", "/v1/journal", params=params))

    async def history(
        self, series: str, since: float, step_s: float, until: float | None = None
    ) -> History:
        """A metric over time; see `RunClient`."""
        params = {"series": series, "since": since, "step": step_s}
        if until is not None:
            params["until"] = until
        return _read(History, await self._ask("GET", "/v1/history", params=params))

    async def series(self) -> list[str]:
        """The names of all metrics."""
        return [str(name) for name in (await self._ask("GET", "/v1/series")).get("series", ())]

    async def marks(self, since: float) -> list[Mark]:
        """Moments that charts show; see `RunClient`."""
        body = await self._ask("GET", "/v1/marks", params={"since": since})
        return _rows(Mark, body, "marks")

    async def estimates(self) -> list[Estimate]:
        """What was estimated; see `RunClient`."""
        body = await self._ask("GET", "/v1/estimates")
        return _rows(Estimate, body, "estimates")

    async def launches(self, server: str | None = None, limit: int = 200) -> list[Launch]:
        """Launches of servers; see `RunClient`."""
        params: dict[str, Any] = {"limit": limit}
        if server is not None:
            params["server"] = server
        body = await self._ask("GET", "/v1/launches", params=params)
        return _rows(Launch, body, "launches")

    async def tuning(self, server: str) -> Tuning:
        """What can be retuned of a server; see `RunClient`."""
        return _read(Tuning, await self._ask("GET", "/v1/tuning", params={"server": server}))

    async def report(self) -> str:
        """Write a plan document; see `RunClient`."""
        return str((await self._ask("POST", "/v1/report", {}))["path"])

    async def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        """What an order would do."""
        return _read(Preview, await self._ask("POST", "/v1/preview", {"verb": verb, "args": args}))

    async def command(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        """Give an order; asked again under the same id when the answer got lost."""
        order = {"id": uuid.uuid4().hex, "verb": verb, "args": args, "origin": self._origin}
        return _read(CommandStatus, await self._ask("POST", "/v1/commands", order))

    async def command_status(self, command_id: str) -> CommandStatus:
        """How far an order is."""
        return _read(CommandStatus, await self._ask("GET", f"/v1/commands/{command_id}"))

    async def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        try:
            code, answer = await self._http.ask(method, path, body, params)
        except NoAnswer as first:
            # Every order carries an id, so asking again does nothing twice.
            await self._start_again(first)
            try:
                code, answer = await self._http.ask(method, path, body, params)
            except NoAnswer as error:
                raise ClientError(_gone(self._run, error)) from error
        try:
            found = json.loads(answer)
        except ValueError as error:
            raise ClientError(f"the supervisor's answer to {path} is not JSON") from error
        if code != 200 or not isinstance(found, dict):
            said = found.get("error") if isinstance(found, dict) else None
            raise ClientError(str(said or f"the supervisor answers {code} to {path}"))
        return found

    async def _start_again(self, error: NoAnswer) -> None:
        """Start a supervisor that is gone, unless the run is down or it was just tried."""
        now = time.monotonic()
        if not self._revive or now - self._tried < REVIVE_S:
            raise ClientError(_gone(self._run, error)) from error
        self._tried = now
        try:
            before = last_status(self._run)
            if before is not None and (why := rests(self._run, before)):
                raise Down(f"{self._run.root}: {why}") from error
            await asyncio.to_thread(ensure_supervisor, self._run)
        except OSError as refused:
            raise ClientError(troubles.of(refused).sentence) from refused


def _gone(run: RunDir, error: NoAnswer) -> str:
    # The run comes last: a screen knows it, and its line is short.
    why = halted(run) or f"the supervisor does not answer ({error}); trying again"
    return f"{why}: {run.root}"


M = TypeVar("M", bound=BaseModel)


def _rows(model: type[M], body: dict[str, Any], name: str) -> list[M]:
    """A list in an answer. Rows that we cannot read, as of a supervisor of another version, are
    left out: the rest must still be shown."""
    rows = body.get(name)
    found = []
    for row in rows if isinstance(rows, list) else ():
        with contextlib.suppress(ValidationError):
            found.append(model.model_validate(row))
    return found


def _read(model: type[M], body: Any) -> M:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise ClientError(f"the supervisor's answer cannot be read: {error}") from error
