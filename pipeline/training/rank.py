"""`python -m torch.distributed.run … -m eagle_tui.pipeline.training.rank RUN --attempt N`: one of
the ranks that the phase starts on this machine. Its events and its ending go to files from which
the phase's process takes them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Final

from eagle_tui import proc
from eagle_tui.clock import SystemClock
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.paths import RunDir

from ..worker import Failed, Refused, Stopped, Worker, settings
from .launch import DIRECTORY, LEADER, events_path, leave_ending
from .session import PHASE, train

_LOOK_S: Final = 1.0
_ORPHANED: Final = 1


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


def main(argv: list[str] | None = None) -> int:
    """Be a rank; gives the exit code, which is 0 unless it failed."""
    parser = argparse.ArgumentParser(prog="python -m eagle_tui.pipeline.training.rank")
    parser.add_argument("run")
    parser.add_argument("--attempt", type=int, default=1)
    args = parser.parse_args(argv)
    rank = int(os.environ.get("RANK", "0"))
    directory = Path(os.environ.get(DIRECTORY) or tempfile.mkdtemp(prefix="eagle-tui-ranks-"))
    leader = int(os.environ[LEADER]) if LEADER in os.environ else None
    threading.Thread(target=_end_with, args=(os.getppid(), leader), daemon=True).start()
    run, clock = RunDir.at(args.run), SystemClock()
    path = events_path(directory) if rank == 0 else directory / f"events-{rank}.jsonl"
    log = WorkerLog(path, clock)
    worker = Worker(run, settings(run)[0], log, clock, PHASE, args.attempt)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop.set())
    me = proc.current()
    log.emit("start", pid=me.pid, started=me.started)
    outcome, reason, code = "done", "", 0
    try:
        train(worker, quiet=rank != 0)
    except Stopped:
        outcome = "stopped"
    except Refused as error:
        outcome, reason, code = "refused", str(error), 3
    except Failed as error:
        outcome, reason, code = "failed", str(error), 1
    except Exception as error:  # noqa: BLE001 - the top of the process: told, then exit 1
        traceback.print_exc()
        outcome, reason, code = "failed", f"rank {rank}: {type(error).__name__}: {error}", 1
    leave_ending(directory, rank, outcome, reason)
    log.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
