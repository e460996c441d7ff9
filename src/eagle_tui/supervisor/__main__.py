"""`python -m eagle_tui.supervisor RUN [--up]`: the one supervisor of a run directory.

Detached: its own session, ignores HUP. Ends at `down`, or on SIGTERM (then workers and servers run
on and are adopted by the next supervisor). Exit codes: 0 ended, 2 configuration, 3 another
supervisor has the run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sqlite3
import sys

import uvicorn

from eagle_tui import proc, troubles
from eagle_tui.clock import SystemClock
from eagle_tui.config import ConfigError, RunConfig, load_config
from eagle_tui.rundir import accepted, owner
from eagle_tui.rundir.owner import Taken
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.app import make_app
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.supervisor.door import Door
from eagle_tui.supervisor.origin import disown
from eagle_tui.supervisor.server import lost
from eagle_tui.supervisor.store import Store, StoreError


async def run(supervisor: Supervisor, door: Door) -> None:
    """Serve until the run is down, the process is told to end, or another one has the run."""
    config = uvicorn.Config(
        make_app(supervisor), log_config=None, access_log=False, lifespan="off", ws="none"
    )
    loop = asyncio.get_running_loop()
    main = asyncio.create_task(supervisor.serve())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, main.cancel)

    def lost(who: str) -> None:
        print(f"another supervisor took this run: {who}", file=sys.stderr, flush=True)
        main.cancel()

    serving = asyncio.create_task(door.serve(config, lost))
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await main
    finally:
        door.close()
        await serving


def settings(run: RunDir, store: Store, *, up: bool) -> tuple[RunConfig, str]:
    """What to go by, and what the operator should know of it. A run that was going on when its
    supervisor died goes on by what was accepted, whatever was done to run.toml since; `up`, and a
    run that is down, take run.toml. But while something runs by other servers or another target
    than run.toml names, nobody takes it: they would neither be adopted nor ended. ConfigError:
    `up` says what to do first."""
    if up or store.get("intent") != "up":
        running = _running(store) if run.accepted.exists() else ""
        if running and not up:
            return accepted.settings(run)
        if running:
            now = load_config(run.config)
            try:
                before = load_config(run.accepted)
            except ConfigError:
                before = now  # of another version of this program: nobody can go by it
            if first := accepted.held(run, before, now, ("server", "target")):
                raise ConfigError(str(run.config), [f"{first} ({running}: still running)"])
        return _taken(run, store), ""
    return accepted.settings(run)


def _running(store: Store) -> str:
    """The names of servers and workers that a supervisor before us left running."""
    left = [*store.open_attempts("server"), *store.open_attempts("phase")]
    return ", ".join(a.name for a in left if launch.adopt(a.token, a.process) is not None)


def _taken(run: RunDir, store: Store) -> RunConfig:
    """The settings of run.toml. What a server that they do not name left behind is ended: nobody
    else would look for it."""
    config = accepted.take(run)
    named = {server.name for server in config.server}
    for attempt in store.open_attempts("server"):
        if attempt.name not in named:
            lost.settle(store, attempt, None, SystemClock().wall())
    return config


def _unkept(run: RunDir, error: Exception) -> int:
    """Nothing can be written, as on a full or read-only disk, or the state file is damaged."""
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
    me = proc.current()
    try:
        lock = owner.take(rundir.lock, me.pid, me.started)
    except Taken as error:
        print(f"{rundir.root}: another supervisor has this run: {error}", file=sys.stderr)
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
        door = Door(rundir, lock, me.pid, me.started)
    except (StoreError, ConfigError) as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, sqlite3.Error) as error:
        return _unkept(rundir, error)
    try:
        try:
            supervisor = Supervisor(rundir, config, store, SystemClock())
        except (OSError, sqlite3.Error) as error:
            return _unkept(rundir, error)
        for sentence in filter(None, (copied, notice)):
            supervisor.say("warning", "supervisor", sentence)
        asyncio.run(run(supervisor, door))
    finally:
        store.close()
        door.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
