"""Starting several ranks on this machine by torchrun, and seeing how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from eagle_tui.clock import SystemClock
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.jsonl import LockedError
from eagle_tui.rundir.paths import RunDir

_CODES = {"done": 0, "stopped": 0, "failed": 1, "refused": 3}


def run_ranks(
    module: str,
    run: RunDir,
    phase: str,
    attempt: int,
    nproc: int,
    *,
    popen: Callable[..., Any] = subprocess.Popen,
) -> int:
    """Run `python -m module RUN --attempt N` in `nproc` ranks until they end; gives the phase's
    exit code.

    The first rank owns the phase and writes its event log. SIGTERM and SIGINT are passed on;
    torchrun gives the ranks half a minute to finish. When a rank dies, torchrun ends the others,
    who keep what they have finished, and the log gets an end that says so.
    """
    argv = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0"),
        *("--nproc-per-node", str(nproc), "-m", module, str(run.root)),
        *("--attempt", str(attempt)),
    ]
    # A session of its own: a terminal that goes away must not hang up on torchrun, which would end.
    child = popen(
        argv,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # What lies in the directory where it is started must not be imported.
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    asked: list[int] = []

    def pass_on(number: int, _: Any) -> None:
        asked.append(number)
        child.send_signal(signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    code = int(child.wait())
    outcome = last_outcome(run, phase, attempt)
    if outcome in ("done", "failed", "refused") or (outcome == "stopped" and asked):
        return _CODES[outcome]
    if asked and not outcome:
        return 0  # stopped before the first rank had begun
    reason = (
        f"a rank of {nproc} died (torchrun ended with {code}; its words are in the phase's log). "
        "What was finished is kept, and the phase goes on from there."
    )
    print(reason, file=sys.stderr, flush=True)
    try:
        log = WorkerLog(run.events(phase, attempt), SystemClock())
    except LockedError:
        return 1  # the first rank lives on without torchrun, and tells its own end
    log.emit("end", outcome="failed", reason=reason, code=1)
    log.close()
    return 1


def last_outcome(run: RunDir, phase: str, attempt: int) -> str:
    """How the attempt's log says that it ended; empty when it does not."""
    outcome = ""
    for row in jsonl.rows(run.events(phase, attempt)):
        if row.get("e") == "end":
            outcome = str(row.get("outcome", ""))
    return outcome
