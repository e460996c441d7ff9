"""The worker of each phase: launch, adopt, restart after a death, stop."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass

from eagle_tui import proc
from eagle_tui.clock import Clock
from eagle_tui.config.model import SupervisorSection
from eagle_tui.protocol import PhaseExit, Severity
from eagle_tui.rundir.events import Outcome
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import launch, recall
from eagle_tui.supervisor.figures import Figures
from eagle_tui.supervisor.launch import Exit, Handle
from eagle_tui.supervisor.moments import LONGEST
from eagle_tui.supervisor.phases import Deaths
from eagle_tui.supervisor.server.context import Say
from eagle_tui.supervisor.store import Store

REFUSED, USAGE = 3, 2
"""Exit codes after which another try would say the same."""


@dataclass(frozen=True)
class Surroundings:
    """What every slot needs."""

    run: RunDir
    store: Store
    clock: Clock
    figures: Figures
    say: Say


class WorkerSlot:
    """At most one worker of a phase at a time."""

    def __init__(self, phase: str, surroundings: Surroundings) -> None:
        self.phase = phase
        self._s = surroundings
        self._handle: Handle | None = None
        self.number = 0
        self.failed: str = (surroundings.store.get("failed") or {}).get(phase, "")
        self.last_reason = ""
        self.last_exit: PhaseExit | None = None
        self._deaths = Deaths()
        self._retry_at = 0.0
        self._kill_at: float | None = None
        self._past_s = 0.0
        self._began: float | None = None
        self._recall()
        self._adopt()

    @property
    def alive(self) -> bool:
        """A worker of the phase runs."""
        return self._handle is not None

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until it may be launched again after a death."""
        wait = self._retry_at - self._s.clock.monotonic()
        return wait if wait > 0 else None

    def elapsed_s(self) -> float | None:
        """Seconds in which a worker of the phase ran, over all attempts; None: it never did."""
        if self.number == 0:
            return None
        running = self._s.clock.monotonic() - self._began if self._began is not None else 0.0
        return self._past_s + running

    def _recall(self) -> None:
        """Where the state file knows of no attempt, as after it was lost, take those that the
        files tell of: one of them may still run."""
        store, run = self._s.store, self._s.run
        if store.attempts("phase", self.phase):
            return
        found = recall.attempts(run, self.phase)
        for item in found:
            token = proc.token_of(item.process.pid) if proc.alive(item.process) else None
            token = token or launch.new_token()
            store.begin("phase", self.phase, token, item.at, above=item.number - 1)
            store.launched(token, item.process)
        if not found:
            self._s.figures.take_counts(self.phase, recall.counts(run, self.phase))

    def _adopt(self) -> None:
        """Take over what a supervisor before us launched. The logs of all attempts are read: the
        sums of datasets are in them, the later one replacing what the earlier said."""
        for attempt in self._s.store.attempts("phase", self.phase):
            self.number = attempt.number
            view = self._s.figures.follow(self.phase, attempt.number)
            if attempt.ended_at is not None:
                ended = Exit(attempt.code, attempt.signal)
                self._saw(attempt.outcome, attempt.reason, ended, attempt.ended_at)
                self._past_s += max(0.0, attempt.ended_at - attempt.launched_at)
                continue
            handle = launch.adopt(attempt.token, attempt.process)
            if handle is None:
                outcome = view.outcome or "died"
                reason = view.reason or "ended while no supervisor was there to see how"
                ended_at = max(view.last_wall or 0.0, attempt.launched_at)
                self._record(attempt.token, outcome, reason, Exit(None, None), ended_at)
                self._past_s += ended_at - attempt.launched_at
                continue
            self._handle = handle
            self._s.store.launched(attempt.token, handle.process)
            self._began = self._s.clock.monotonic()
            self._past_s += max(0.0, self._s.clock.wall() - attempt.launched_at)
            self._s.say("info", self.phase, f"adopted (pid {handle.process.pid})")

    def launch(self) -> None:
        """Start a worker."""
        store, clock = self._s.store, self._s.clock
        token = launch.new_token()
        # A worker that was run by hand, or before the state file was lost, has a number, too.
        above = max(self._s.run.event_logs(self.phase), default=0)
        self.number = store.begin("phase", self.phase, token, clock.wall(), above=above)
        argv = [
            *(sys.executable, "-m", f"eagle_tui.pipeline.{self.phase}"),
            *(str(self._s.run.root), "--attempt", str(self.number)),
        ]
        try:
            self._handle = launch.spawn(
                argv,
                token=token,
                log=self._s.run.log(self.phase, self.number),
                cwd=self._s.run.root,
                env={"PYTHONUNBUFFERED": "1", **launch.SAFE_PATH},
            )
        except OSError as error:
            reason = f"the worker cannot be started: {error.strerror}"
            self._record(token, "failed", reason, Exit(None, None))
            self._died(reason, progressed=False, settings=SupervisorSection())
            return
        store.launched(token, self._handle.process)
        self._began = clock.monotonic()
        self._kill_at = None
        self._s.figures.follow(self.phase, self.number)
        self._s.say("info", self.phase, f"started (attempt {self.number})")
        again = f", attempt {self.number}" if self.number > 1 else ""
        self._mark("phase", f"{self.phase} starts{again}")

    def check(self, settings: SupervisorSection) -> Outcome | str | None:
        """See whether the worker ended, and settle it; gives how it ended, or None."""
        if self._handle is None:
            return None
        ended = self._handle.poll()
        mono = self._s.clock.monotonic()
        if ended is None:
            if self._kill_at is not None and mono >= self._kill_at:
                self._handle.kill_all()
            return None
        view = self._s.figures.workers[self.phase]
        self._s.figures.poll()
        left = self._handle.kill_all()
        outcome = view.outcome or "died"
        reason = view.reason or self._last_words(ended)
        self._record(self._handle.token, outcome, reason, ended)
        self._past_s += mono - (self._began or mono)
        self._handle = None
        self.last_reason = reason
        if left:
            self._s.say("warning", self.phase, f"{left} processes left behind were killed")
        if outcome in ("done", "stopped"):
            self._deaths = Deaths()
            self._s.say("info", self.phase, f"{outcome} (attempt {self.number})")
            self._mark("phase", f"{self.phase} {outcome}")
        elif ended.code in (REFUSED, USAGE) or outcome == "refused":
            self.fail(reason)
        else:
            self._died(reason, progressed=view.progressed, settings=settings)
        self._began = None
        return outcome

    def _last_words(self, ended: Exit) -> str:
        lines = launch.last_lines(self._s.run.log(self.phase, self.number), 3)
        return f"{ended.words()}; last line: {lines[-1][:300]}" if lines else ended.words()

    def _record(
        self, token: str, outcome: str, reason: str, ended: Exit, at: float | None = None
    ) -> None:
        at = self._s.clock.wall() if at is None else at
        self._s.store.ended(
            token, at, outcome=outcome, reason=reason, code=ended.code, signal=ended.signal
        )
        self._saw(outcome, reason, ended, at)

    def _saw(self, outcome: str, reason: str, ended: Exit, at: float) -> None:
        self.last_exit = PhaseExit(
            attempt=self.number,
            outcome=outcome,
            at=at,
            code=ended.code,
            signal=ended.signal_name,
            reason=reason,
        )

    def _died(self, reason: str, *, progressed: bool, settings: SupervisorSection) -> None:
        mono = self._s.clock.monotonic()
        # A worker that gets something done between two deaths is worth restarting for ever.
        before = Deaths() if progressed else self._deaths
        lived_s = mono - (self._began if self._began is not None else mono)
        self._deaths = before.after(mono, settings.restart_window_s, lived_s)
        self._mark("crash", f"{self.phase} died: {reason}")
        count = len(self._deaths.times)
        if count > settings.restarts:
            self.fail(f"died {count} times in a row: {reason}")
            return
        wait = self._deaths.backoff_s(settings.backoff_s)
        self._retry_at = mono + wait
        self._s.say("error", self.phase, f"died ({reason}); restart in {wait:.0f} s")

    def fail(self, reason: str) -> None:
        """Give the phase up until the operator says otherwise."""
        self.failed = reason
        self._keep_failed()
        self._mark("phase", f"{self.phase} failed")
        self._s.say("error", self.phase, f"failed: {reason}")

    def _mark(self, kind: str, text: str) -> None:
        self._s.store.mark(self._s.clock.wall(), kind, text[:LONGEST])

    def forgive(self) -> None:
        """Forget the failure; it may be launched again."""
        self.failed, self._deaths, self._retry_at = "", Deaths(), 0.0
        self._keep_failed()

    def _keep_failed(self) -> None:
        failed = dict(self._s.store.get("failed") or {})
        failed.pop(self.phase, None)
        if self.failed:
            failed[self.phase] = self.failed
        self._s.store.put("failed", failed)

    def abandon(self) -> None:
        """Kill the worker at once; its run directory is gone."""
        if self._handle is not None:
            self._handle.kill_all()

    def stop(self, timeout_s: float) -> None:
        """Ask the worker to stop; after `timeout_s` it is killed by `check`."""
        if self._handle is not None and self._kill_at is None:
            self._kill_at = self._s.clock.monotonic() + timeout_s
            self._handle.send(signal.SIGTERM)


def severity_of(text: str) -> Severity:
    """A worker's word for how bad something is, if it is one that we know."""
    return "error" if text == "error" else "warning" if text == "warning" else "info"
