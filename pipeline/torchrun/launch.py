"""Several ranks on this machine: the phase's process starts torchrun, follows what the first rank
reports, and ends as it ended.

The parent keeps the phase's lock and event log; the first rank writes its events to a file that the
parent copies from. A rank whose parent is gone ends by itself, so that nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal

from eagle_tui.rundir import atomic
from eagle_tui.rundir.jsonl import Tail

from ..worker import Failed, Refused, Stopped, Worker

DIRECTORY: Final = "EAGLE_TUI_RANKS"
"""Variable with the directory in which ranks leave their events and how they ended."""
LEADER: Final = "EAGLE_TUI_RANKS_LEADER"
"""Variable with the pid of the phase's process."""
_POLL_S: Final = 0.2
_COPIED: Final = ("progress", "metric", "note", "flow")


def events_path(directory: Path, rank: int) -> Path:
    """Events of a rank; those of the first one become the phase's."""
    return directory / f"events-{rank}.jsonl"


def ending_path(directory: Path, rank: int) -> Path:
    """How a rank ended: {outcome, reason, at}."""
    return directory / f"rank-{rank}.json"


def run_ranks(
    worker: Worker, nproc: int, module: str, *, tell: Literal["first", "all"] = "first"
) -> None:
    """Run `python -m module RUN --attempt N` in `nproc` ranks, which are `rank.main` there.
    Refused, Failed or Stopped as the ranks say; Failed when one dies without a word.

    `tell`: which of them are asked to stop when the phase is; `first`: the others hear it from it.
    """
    directory = worker.run.phase(worker.phase) / "ranks"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    argv = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"),
        *("--nproc-per-node", str(nproc), "-m", module),
        *(str(worker.run.root), "--attempt", str(worker.attempt)),
    ]
    env = {**os.environ, DIRECTORY: str(directory), LEADER: str(os.getpid())}
    # What lies in the directory where it is started must not be imported.
    env["PYTHONSAFEPATH"] = "1"
    env.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // nproc)))
    # A session of its own: torchrun would end when the terminal goes away.
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    tail = Tail(events_path(directory, 0))
    untold = set(range(1 if tell == "first" else nproc))
    try:
        while process.poll() is None:
            _copy(worker, tail)
            if worker.stop.is_set():
                untold = {rank for rank in untold if not _tell(directory, rank)}
                _sleep(process)
            else:
                worker.stop.wait(_POLL_S)
        _copy(worker, tail)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    settle(worker, directory, nproc, process.returncode)


def _sleep(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return


def _tell(directory: Path, rank: int) -> bool:
    """Ask a rank to stop. False while it is not up yet."""
    for event in Tail(events_path(directory, rank)).read():
        if event.get("e") == "start":
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(event["pid"]), signal.SIGTERM)
            return True
    return False


def _copy(worker: Worker, tail: Tail) -> None:
    for event in tail.read():
        if event.get("e") in _COPIED:
            fields = {key: value for key, value in event.items() if key not in ("e", "at")}
            worker.log.emit(str(event["e"]), **fields)


def settle(worker: Worker, directory: Path, nproc: int, code: int) -> None:
    """End as the ranks did: Refused, Failed or Stopped, or nothing when they are done."""
    endings: list[dict[str, Any]] = []
    for rank in range(nproc):
        body = atomic.read_json(ending_path(directory, rank))
        if isinstance(body, dict):
            endings.append(body)
    # The others fail because the first one did, so it is the one that knows why.
    endings.sort(key=lambda ending: float(ending["at"]))
    for outcome, error in (("refused", Refused), ("failed", Failed)):
        for ending in endings:
            if ending["outcome"] == outcome:
                raise error(str(ending["reason"]))
    if len(endings) < nproc or code != 0:
        missing = nproc - len(endings)
        raise Failed(
            f"{missing or 'Some'} of {nproc} ranks died without a word (torchrun ended with code "
            f"{code}); see {worker.run.log(worker.phase, worker.attempt)}. What was finished is "
            "kept; the phase goes on from there."
        )
    if any(ending["outcome"] == "stopped" for ending in endings):
        raise Stopped


def leave_ending(directory: Path, rank: int, outcome: str, reason: str) -> None:
    """Write how this rank ended."""
    body = {"outcome": outcome, "reason": reason, "at": time.time()}
    atomic.write_json(ending_path(directory, rank), body)
