"""One rank of a phase: started by `launch.run_ranks`, which takes its events and its ending from
files, or by torchrun by hand, on any number of machines that share the run directory."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from eagle_tui import proc
from eagle_tui.clock import SystemClock
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

from .. import worker as phases
from ..worker import Failed, Refused, Stopped, Worker
from .launch import DIRECTORY, LEADER, events_path, leave_ending

_LOOK_S: Final = 1.0
_ORPHANED: Final = 1

Share = Callable[[Worker, int], None]
"""What a rank does: it is given a worker, whose log nobody but the first rank's is read, and its
number."""


def under_torchrun() -> bool:
    """This process is a rank that torchrun started."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"))


def entry(
    phase: str, whole: Callable[[Worker], None], share: Share, argv: list[str] | None = None
) -> int:
    """Be what this process is meant to be: the phase's own process, which does all of it or starts
    the ranks (`whole`), or one of the ranks (`share`); gives the exit code.

    By hand under torchrun the first rank is the phase's own process.
    """
    if under_torchrun() and (os.environ["RANK"] != "0" or DIRECTORY in os.environ):
        return main(phase, share, argv)
    return phases.main(phase, whole, argv)


def main(phase: str, share: Share, argv: list[str] | None = None) -> int:
    """Be a rank; gives the exit code, which is 0 unless it failed."""
    parser = argparse.ArgumentParser(prog=f"python -m eagle_tui.pipeline.{phase}")
    parser.add_argument("run")
    parser.add_argument("--attempt", type=int, default=1)
    args = parser.parse_args(argv)
    rank = int(os.environ.get("RANK", "0"))
    directory = Path(os.environ.get(DIRECTORY) or tempfile.mkdtemp(prefix="eagle-tui-ranks-"))
    leader = int(os.environ[LEADER]) if LEADER in os.environ else None
    threading.Thread(target=_end_with, args=(os.getppid(), leader), daemon=True).start()
    run, clock = RunDir.at(args.run), SystemClock()
    log = WorkerLog(events_path(directory, rank), clock)
    worker = Worker(run, phases.settings(run)[0], log, clock, phase, args.attempt)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    me = proc.current()
    log.emit("start", pid=me.pid, started=me.started)
    outcome, reason, code = "done", "", 0
    try:
        share(worker, rank)
    except Stopped:
        outcome = "stopped"
    except Refused as error:
        outcome, reason, code = "refused", str(error), 3
    except Failed as error:
        outcome, reason, code = "failed", str(error), 1
    except Exception as error:  # noqa: BLE001 - the top of the process: told, then exit 1
        traceback.print_exc()
        outcome, reason, code = "failed", f"rank {rank}: {type(error).__name__}: {error}", 1
    if reason:
        print(f"rank {rank}: {visible(reason)}", file=sys.stderr, flush=True)
    leave_ending(directory, rank, outcome, reason)
    log.close()
    return code


def _end_with(parent: int, leader: int | None) -> None:
    """End this process when torchrun or the phase's process is gone: nobody would follow it."""
    while os.getppid() == parent and (leader is None or _alive(leader)):
        time.sleep(_LOOK_S)
    os._exit(_ORPHANED)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
