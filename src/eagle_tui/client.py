"""The socket client: finds a run's supervisor, starts one where there should be one, asks it.

Whoever wants to see or steer a run goes through here. A supervisor that was killed is started again
by the next look or order; one that the operator stopped (`down`) is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from eagle_tui import proc
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
from eagle_tui.reader.files import RunFiles
from eagle_tui.records import JournalPage, JournalQuery
from eagle_tui.rundir import atomic, owner
from eagle_tui.rundir.paths import RunDir
from eagle_tui.rundir.unixsocket import address
from eagle_tui.unixhttp import NoAnswer, UnixHttp
from eagle_tui.versions import read_status

ANSWER_S = 5.0
"""A local supervisor answers in milliseconds; after this long it is in trouble."""
START_S = 20.0
READING_S = 300.0
"""What a supervisor that lives gets to read the logs of a large run before it answers: some ten
seconds for a million responses."""
FULL_DISK = 1 << 20
"""Bytes below which a disk is too full for a supervisor to begin."""
GONE_S = 20.0
"""What a supervisor gets to end after the run is down."""
REVIVE_S = 5.0
"""Least time between two tries to start a supervisor that is gone."""


class NotARun(ClientError):
    """There is no run in that directory."""


class Down(ClientError):
    """The run was stopped by the operator, or never started."""


class StartFailed(ClientError):
    """No supervisor could be started; the message holds what it said. `code` is its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NotYours(Down):
    """Another user's run: its supervisor answers him alone."""


class Halted(ClientError):
    """The run's supervisor is there and held by a stop signal."""


def halted(run: RunDir) -> str:
    """A sentence when the run's supervisor is held by a stop signal; else empty."""
    has_it = owner.read(run.lock)
    if has_it is None or not has_it.here:
        return ""
    if not proc.is_stopped(proc.Process(has_it.pid, has_it.started)):
        return ""
    pid = has_it.pid
    return f"the supervisor (pid {pid}) is held by a stop signal; `kill -CONT {pid}` lets it go on"


def last_status(run: RunDir) -> Status | None:
    """The snapshot that the supervisor left in the run directory; None when there is none."""
    path = run.root / "status.json"
    try:
        body = atomic.read_json(path)
        if body is None:
            return None
        if not isinstance(body, dict) or not all(body.get(part) for part in ("run", "supervisor")):
            raise ValueError(f"{path}: no status of a run")
        return read_status(body)  # another version of this program may have left it
    except ValueError as error:
        raise ClientError(f"{error}; move it away, or `eagle-tui up` writes it anew") from error


def is_down(run: RunDir) -> bool:
    """Whether the operator stopped the run and nobody runs it."""
    before = last_status(run)
    return before is not None and before.supervisor.state == "stopped" and not answers(run)


def wait_gone(run: RunDir, timeout_s: float = GONE_S) -> bool:
    """Wait until no supervisor has the run any more, and the last one of this machine has ended;
    False when one is still there."""
    deadline = time.monotonic() + timeout_s
    has_it = owner.read(run.lock)
    last = proc.Process(has_it.pid, has_it.started) if has_it and has_it.here else None
    while True:
        try:
            fd = os.open(run.lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError:
            free = False
        finally:
            os.close(fd)
        if free and (last is None or not proc.alive(last)):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)


def require_name(run: RunDir) -> None:
    """NotARun when the directory's path is no text: it could be written into no JSON."""
    try:
        str(run.root).encode()
    except UnicodeEncodeError:
        raise NotARun(f"{run.root}: its name is not UTF-8; rename it") from None


def require_run(run: RunDir) -> None:
    """NotARun unless there is a run.toml, or the one that was accepted when it went missing."""
    require_name(run)
    if run.config.is_file() or (run.accepted.is_file() and not os.path.lexists(run.config)):
        return
    if os.path.lexists(run.config):
        raise NotARun(f"{run.config}: no file that can be read; move it away")
    if run.root.exists() and not run.root.is_dir():
        raise NotARun(f"{run.root}: a file; a run is a directory with a run.toml")
    what = "no run.toml there" if run.root.is_dir() else "there is no such directory"
    raise NotARun(f"{run.root}: {what}; `eagle-tui init {run.root}` makes a run")


def start_supervisor(run: RunDir, *, up: bool = False) -> None:
    """Start a detached supervisor and wait until it answers. StartFailed with what it said."""
    log = run.log("supervisor", 1)
    log.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "eagle_tui.supervisor", str(run.root)]
    with log.open("ab") as out:
        said_from = out.tell()
        child = subprocess.Popen(
            [*argv, "--up"] if up else argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=run.root,
            # The run directory is data: nothing in it is ever imported.
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            start_new_session=True,
        )
    began = time.monotonic()
    while True:
        if answers(run):
            return
        code = child.poll()
        waited = time.monotonic() - began
        if waited > (READING_S if code is None else START_S):
            raise StartFailed(f"the supervisor does not answer after {waited:.0f} s; see {log}", 1)
        # Another one may have won the race for the lock; then its socket will answer.
        if code is not None and (code != 3 or _elsewhere(run)):
            with log.open("rb") as file:
                file.seek(said_from)
                said = file.read().decode("utf-8", "replace").strip()
            raise StartFailed(said or _silent_end(run, code), code)
        time.sleep(0.05)


def _elsewhere(run: RunDir) -> bool:
    """Whether the run's lock is held on another machine, whose socket is of no use here."""
    has_it = owner.read(run.lock)
    return has_it is not None and not has_it.here


def _silent_end(run: RunDir, code: int) -> str:
    """A supervisor ended and its log does not say why: on a full disk nothing can be written."""
    free = shutil.disk_usage(run.root).free
    full = f": only {free:,} bytes of disk are free; make room" if free < FULL_DISK else ""
    return f"{run.root}: the supervisor ended with exit code {code}{full}"


def answers(run: RunDir) -> bool:
    """Whether a supervisor answers on the socket now."""
    if not run.socket.exists():
        return False

    async def look() -> bool:
        http = _http(run)
        try:
            return (await http.ask("GET", "/v1/status"))[0] == 200
        except NoAnswer:
            return False
        finally:
            await http.close()

    return asyncio.run(look())


def _http(run: RunDir) -> UnixHttp:
    return UnixHttp(lambda: address(run.socket), ANSWER_S)


def rests(run: RunDir, before: Status) -> str:
    """Why a look must not start a supervisor that is gone; empty when it may. What was copied or
    moved is another run, perhaps of another machine: only `up` starts it here."""
    if before.supervisor.state == "stopped":
        return f"the run is down; `eagle-tui up {run.root}` goes on"
    if Path(before.run.dir) != run.root:
        return (
            f"copied or moved from {before.run.dir}, and no supervisor is here; "
            f"`eagle-tui up {run.root}` goes on with it"
        )
    if not os.access(run.root, os.W_OK):
        return "no supervisor is here, and the directory cannot be written"
    return ""


def ensure_supervisor(run: RunDir, *, up: bool = False) -> bool:
    """Make sure that a supervisor answers; True when one had to be started. Down when the run is
    stopped and `up` is not asked for."""
    require_run(run)
    if why := halted(run):
        raise Halted(f"{why}: {run.root}")  # a screen knows the run, and its line is short
    if run.socket.exists() and not os.access(run.socket, os.R_OK | os.W_OK):
        whose = run.socket.stat().st_uid
        raise NotYours(
            f"{run.root}: the run belongs to the user with uid {whose}, and its supervisor answers "
            "that user alone"
        )
    if answers(run):
        return False
    if not up:
        before = last_status(run)
        if before is None and not run.state.exists():
            raise Down(f"{run.root}: not started yet; `eagle-tui up {run.root}` starts it")
        if before is not None and (why := rests(run, before)):
            raise Down(f"{run.root}: {why}")
    start_supervisor(run, up=up)
    return True


class SocketClient(RunFiles):
    """`RunClient` over the run's unix socket. Use as an async context manager, or `close` it."""

    def __init__(self, run: RunDir, *, origin: str = "cli", revive: bool = True) -> None:
        super().__init__(run)
        self._run = run
        self._origin = f"{origin}:{os.environ.get('USER', os.getuid())}"
        self._revive = revive
        self._tried = float("-inf")
        self._http = _http(run)

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
        before = last_status(self._run)
        if before is not None and (why := rests(self._run, before)):
            raise Down(f"{self._run.root}: {why}") from error
        await asyncio.to_thread(ensure_supervisor, self._run)


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
