"""Ending a server: from the decision until nothing of it is left.

1. hold: its endpoint is withdrawn, and generation takes its requests back, or throws them away, or,
   in a drain, lets them finish, however long that takes;
2. signal: SIGINT to the parent. SGLang then closes its port, answers what still runs and exits 0,
   in every version (SIGTERM goes on taking requests, and its exit code tells nothing);
3. kill: after a deadline, SIGKILL to everything it started;
4. verify: no process is left, the port is free, and the GPU memory is what it was before.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Literal

from eagle_tui import proc
from eagle_tui.clock import Clock
from eagle_tui.proc import Process
from eagle_tui.supervisor.launch import Exit, Handle
from eagle_tui.supervisor.launches import InFlight
from eagle_tui.supervisor.server.memory import still_held

CHILDREN_S = 2.0
"""What children get to follow their parent by themselves; one was seen a second later."""
LEFT_S = 15.0
"""How long a killed process may take to be gone; one that hangs in a driver never is."""
PORT_S = 15.0
MEMORY_S = 30.0
"""How long the driver may take to free the memory of processes that are gone."""

Stage = Literal["hold", "signal", "kill", "verify", "done"]


class Closing:
    """One ending. `step` is called about four times a second and never blocks."""

    def __init__(
        self,
        handle: Handle,
        clock: Clock,
        *,
        port_taken: Callable[[], bool],
        memory: Callable[[], Mapping[int, int] | None],
        memory_before: Mapping[int, int] | None,
        hold_s: float = 0.0,
        stop_s: float = 0.0,
        ended: Exit | None = None,
    ) -> None:
        """`ended`: the parent is gone already, and only what it left is to be seen to."""
        self._handle = handle
        self._clock = clock
        self._port_taken = port_taken
        self._memory = memory
        self._memory_before = memory_before
        self._stop_s = stop_s
        self._entered = clock.monotonic()
        self._hold_s = hold_s
        self._hold_by = self._entered + hold_s
        self._leave: InFlight = "hold"
        self._in_flight = 0
        self.stage: Stage = "hold" if ended is None else "verify"
        self.ended = ended
        self.notes: list[str] = []
        """What did not go as it should, in sentences."""
        self._orphans: dict[Process, str] = {}

    @property
    def words(self) -> str:
        """What it waits for."""
        left = f"{self._in_flight:,} request{'' if self._in_flight == 1 else 's'} in flight"
        return {
            "hold": {
                "hold": "generation takes its requests back",
                "drain": f"{left} finish{'es' if self._in_flight == 1 else ''} first",
                "abort": "its requests are thrown away",
            }[self._leave],
            "signal": "it was asked to stop",
            "kill": "its processes are killed",
            "verify": "waiting until its processes, port and memory are free",
            "done": "",
        }[self.stage]

    def step(self, held: bool, leave: InFlight = "hold", in_flight: int = 0) -> None:
        """Go on as far as it goes now. `held`: no request of ours is in flight on it. `leave`: what
        becomes of them; it may change on the way. `in_flight`: how many there are."""
        if leave != self._leave:
            # What was waited for until now gets as long to be taken back as in any other stop.
            self._leave, self._hold_by = leave, self._clock.monotonic() + self._hold_s
        self._in_flight = in_flight
        if self.stage in ("hold", "signal", "kill"):
            self.ended = self._handle.poll()
            if self.ended is not None:
                self._enter("verify")
        if self.stage == "hold":
            self._hold(held)
        elif self.stage == "signal":
            if self._waited() >= self._stop_s:
                self._handle.kill_all()
                self.notes.append(f"did not stop in {self._stop_s:.0f} s and was killed")
                self._enter("kill")
        elif self.stage == "kill":
            self._handle.kill_all()
            if self._waited() >= LEFT_S:
                self.ended = Exit(None, None)
                self._enter("verify")
        elif self.stage == "verify":
            self._verify()

    def kill(self, note: str) -> None:
        """Do not wait any longer; `note` says why."""
        if self.stage in ("hold", "signal"):
            self.notes.append(note)
            self._handle.kill_all()
            self._enter("kill")

    def _enter(self, stage: Stage) -> None:
        self.stage, self._entered = stage, self._clock.monotonic()

    def _waited(self) -> float:
        return self._clock.monotonic() - self._entered

    def _hold(self, held: bool) -> None:
        late = self._leave != "drain" and self._clock.monotonic() >= self._hold_by
        if not held and not late:
            return
        if not held:
            self.notes.append("was stopped with requests still in flight; they are continued later")
        self._handle.send(signal.SIGINT)
        self._enter("signal")

    def _verify(self) -> None:
        waited = self._waited()
        left = self._handle.family()
        if left:
            if waited < CHILDREN_S:
                return
            for process in left:
                self._orphans.setdefault(process, proc.title(process) or "?")
            proc.kill(left)
            if waited < CHILDREN_S + LEFT_S:
                return
        if self._port_taken() and waited < PORT_S:
            return
        held = self._memory_held()
        if held and waited < MEMORY_S:
            return
        self._conclude(left, held)

    def _memory_held(self) -> str:
        """Which GPUs are not back to what they were; empty when all are or nobody knows."""
        now = self._memory()
        if self._memory_before is None or now is None:
            return ""
        return still_held(self._memory_before, now)

    def _conclude(self, left: list[Process], memory: str) -> None:
        if self._orphans:
            named = ", ".join(f"{title} (pid {p.pid})" for p, title in self._orphans.items())
            self.notes.append(f"processes that it left behind were killed: {named}")
        if left:
            pids = ", ".join(str(process.pid) for process in left)
            self.notes.append(f"cannot be killed, they hang in the system: pid {pids}")
        if self._port_taken():
            self.notes.append("its port is still taken")
        if memory:
            self.notes.append(f"{memory}: another program may use them")
        self._enter("done")
