"""`python -m eagle_tui.supervisor RUN [--up]`: the one supervisor of a run directory.

Detached: its own session, ignores HUP. Ends at `down`, or on SIGTERM (then workers and servers run
on and are adopted by the next supervisor). Exit codes: 0 ended, 2 configuration, 3 another
supervisor has the run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from eagle_tui import proc, troubles
from eagle_tui.clock import SystemClock
from eagle_tui.config import ConfigError, RunConfig
from eagle_tui.rundir import accepted, owner
from eagle_tui.rundir.owner import Owner
from eagle_tui.rundir.paths import RunDir
from eagle_tui.rundir.unixsocket import address
from eagle_tui.supervisor.app import make_app
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.supervisor.origin import disown
from eagle_tui.supervisor.store import Store, StoreError


class Owned(RuntimeError):
    """Another supervisor has the run."""


def own(path: Path) -> int:
    """Take the run's lock; the descriptor holds it for the life of this process."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        has_it = owner.parse(os.pread(fd, 4096, 0))
        os.close(fd)
        who = has_it.words if has_it else "it has not told its name yet"
        raise Owned(f"{path.parent}: another supervisor has this run: {who}") from None
    me = proc.current()
    text = Owner(me.pid, me.started, os.uname().nodename).to_json()
    os.ftruncate(fd, 0)
    os.pwrite(fd, text.encode() + b"\n", 0)
    return fd


def listen(path: Path) -> socket.socket:
    """The socket, mode 0600 from its first moment; one left by a dead supervisor is replaced."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        server.bind(address(path))
    finally:
        os.umask(before)
    return server


class SocketServer(uvicorn.Server):
    """Signals belong to the supervisor, not to uvicorn."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def run(supervisor: Supervisor, server: socket.socket) -> None:
    """Serve until the run is down or the process is told to end."""
    config = uvicorn.Config(
        make_app(supervisor), log_config=None, access_log=False, lifespan="off", ws="none"
    )
    web = SocketServer(config)
    loop = asyncio.get_running_loop()
    main = asyncio.create_task(supervisor.serve())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, main.cancel)
    serving = asyncio.create_task(web.serve(sockets=[server]))
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await main
    finally:
        web.should_exit = True
        await serving


def settings(run: RunDir, store: Store, *, up: bool) -> tuple[RunConfig, str]:
    """What to go by, and what the operator should know of it. A run that was going on when its
    supervisor died goes on by what was accepted, whatever was done to run.toml since; `up`, and a
    run that is down, take run.toml."""
    if up or store.get("intent") != "up":
        return accepted.take(run), ""
    return accepted.settings(run)


def _unkept(run: RunDir, error: Exception) -> int:
    """Nothing can be written, as on a full or read-only disk."""
    print(
        f"{run.root}: the run's state cannot be kept: {troubles.of(error).sentence}",
        file=sys.stderr,
    )
    return 1


def main(argv: list[str] | None = None) -> int:
    """Entry point; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m eagle_tui.supervisor")
    parser.add_argument("run", help="run directory")
    parser.add_argument("--up", action="store_true", help="the run is to go on")
    args = parser.parse_args(argv)
    rundir = RunDir.at(args.run)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        lock = own(rundir.lock)
    except Owned as error:
        print(error, file=sys.stderr)
        return 3
    except OSError as error:
        return _unkept(rundir, error)
    try:
        store = Store(rundir.state)
        copied = disown(store, rundir.root, SystemClock().wall())
        config, notice = settings(rundir, store, up=args.up)
        if args.up:
            store.put("intent", "up")
            store.put("failed", {})
        server = listen(rundir.socket)
    except (StoreError, ConfigError) as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, sqlite3.Error) as error:
        return _unkept(rundir, error)
    try:
        supervisor = Supervisor(rundir, config, store, SystemClock())
        for sentence in filter(None, (copied, notice)):
            supervisor.say("warning", "supervisor", sentence)
        asyncio.run(run(supervisor, server))
    finally:
        with contextlib.suppress(FileNotFoundError):
            rundir.socket.unlink()
        store.close()
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
