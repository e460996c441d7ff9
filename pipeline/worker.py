"""What every phase's program shares: arguments, lock, event log, SIGTERM, exit code.

A phase is runnable by hand, without a supervisor: `python -m eagle_tui.pipeline.PHASE RUN`.

Exit codes: 0 done, or stopped by SIGTERM in a state that can be resumed; 1 failed; 2 configuration;
3 refused (another worker owns the phase, or its inputs are not there).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eagle_tui import __version__, proc, troubles
from eagle_tui.clock import Clock, SystemClock
from eagle_tui.config import ConfigError, load_config
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import accepted, manifest, owner
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.owner import Taken
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible


class Refused(RuntimeError):
    """The phase cannot run as things are; the message says why and what to do. Not retried."""


class Failed(RuntimeError):
    """The phase failed for a reason that it understands; the message says it in a sentence."""


class Stopped(Exception):
    """The phase was asked to stop and has left a state that can be resumed."""


@dataclass
class Worker:
    """What a phase gets to work with."""

    run: RunDir
    config: RunConfig
    log: WorkerLog
    clock: Clock
    phase: str
    attempt: int
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by SIGTERM or SIGINT: finish the record in hand, flush, and raise Stopped."""

    def check_stop(self) -> None:
        """Raise Stopped when the phase was asked to stop."""
        if self.stop.is_set():
            raise Stopped

    def finish(
        self,
        *,
        counts: dict[str, object],
        outputs: list[Path],
        versions: dict[str, str],
        inputs: dict[str, str],
        early: str = "",
    ) -> None:
        """Write the manifest: the phase is done. `inputs` were taken before the work began, so that
        a change made meanwhile shows as stale."""
        root = self.run.phase(self.phase)
        manifest.write(
            self.run,
            manifest.Manifest(
                phase=self.phase,
                made_at=self.clock.wall(),
                attempt=self.attempt,
                inputs=inputs,
                counts=counts,
                outputs={str(p.relative_to(root)): p.stat().st_size for p in outputs},
                versions={"eagle_tui": __version__, **versions},
                early=early,
            ),
        )


def next_attempt(run: RunDir, phase: str) -> int:
    """For a worker started by hand: one more than the last event log."""
    return max(run.event_logs(phase), default=0) + 1


def _unwritten(run: RunDir, error: OSError) -> int:
    """The run directory takes nothing; gives the exit code."""
    said = f"{run.root}: nothing can be written there: {troubles.of(error).sentence}"
    print(said, file=sys.stderr)
    return 1


def settings(run: RunDir) -> tuple[RunConfig, str]:
    """The settings that a phase's process goes by, and what the operator should know of them:
    those that were accepted when the supervisor started it, those of run.toml when somebody did by
    hand. ConfigError: not usable."""
    return accepted.settings(run) if proc.TOKEN_ENV in os.environ else (load_config(run.config), "")


def main(phase: str, body: Callable[[Worker], None], argv: list[str] | None = None) -> int:
    """Run `body` as the worker of `phase`; gives the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m eagle_tui.pipeline.{phase}")
    parser.add_argument("run", help="run directory")
    parser.add_argument("--attempt", type=int, help="number of the attempt (default: the next one)")
    args = parser.parse_args(argv)
    run = RunDir.at(args.run)
    try:
        config, notice = settings(run)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    me = proc.current()
    try:
        lock = owner.take(run.worker_lock(phase), me.pid, me.started, mode=0o644)
    except Taken as error:
        print(
            f"{run.root}: another worker is already running {phase}: {visible(str(error))}. "
            "Wait for it or stop it first.",
            file=sys.stderr,
        )
        return 3
    except OSError as error:
        return _unwritten(run, error)
    clock = SystemClock()
    attempt = args.attempt or next_attempt(run, phase)
    try:
        log = WorkerLog(run.events(phase, attempt), clock)
        worker = Worker(run, config, log, clock, phase, attempt)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop.set())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        log.emit(
            "start",
            pid=me.pid,
            started=me.started,
            phase=phase,
            attempt=attempt,
            version=__version__,
        )
    except OSError as error:
        os.close(lock)
        return _unwritten(run, error)
    if notice:
        log.note(notice, "warning")
    code = 0
    outcome, reason = "done", ""
    try:
        body(worker)
    except Stopped:
        outcome, reason = "stopped", "asked to stop; resumes where it was"
    except Refused as error:
        code, outcome, reason = 3, "refused", str(error)
    except Failed as error:
        code, outcome, reason = 1, "failed", str(error)
    except Exception as error:  # noqa: BLE001 - the top of the process: told in the log, then exit 1
        traceback.print_exc()
        code, outcome = 1, "failed"
        reason = f"{type(error).__name__}: {error}"
    if reason:
        print(visible(reason), file=sys.stderr, flush=True)
    try:
        log.emit("end", outcome=outcome, reason=reason, code=code)
        log.close()
    except OSError as error:
        # A full disk: the supervisor then goes by the exit code and the last line of this output.
        print(f"{log.path}: {troubles.of(error).sentence}", file=sys.stderr, flush=True)
        code = code or 1
    os.close(lock)
    return code
