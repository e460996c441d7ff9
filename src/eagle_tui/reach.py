"""Reaching a run's supervisor: is there a run, who has it, does its supervisor answer; and starting
one where there should be one.

A supervisor that was killed is started again by the next look or order; one that the operator
stopped (`down`) is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from eagle_tui import proc
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import Status
from eagle_tui.rundir import atomic, environment, owner
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
    """Start a detached supervisor and wait until it answers. StartFailed with what it said. Without
    `up` it gets the environment of the last one."""
    log = run.log("supervisor", 1)
    log.parent.mkdir(parents=True, exist_ok=True)
    if up:
        # On a full disk the run comes up all the same, and goes by this shell's afterwards.
        with contextlib.suppress(OSError):
            environment.keep(run)
    environ = dict(os.environ) if up else environment.restored(run)
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
            env={**environ, "PYTHONSAFEPATH": "1"},
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
        http = http_to(run)
        try:
            return (await http.ask("GET", "/v1/status"))[0] == 200
        except NoAnswer:
            return False
        finally:
            await http.close()

    return asyncio.run(look())


def http_to(run: RunDir) -> UnixHttp:
    """Questions to the run's supervisor, over its socket."""
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
