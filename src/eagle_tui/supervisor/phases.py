"""The phase machine: from what is known about a phase to its state, and whether to launch it.

Pure: facts in, decision out. Facts are gathered by the supervisor's core.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle_tui.protocol import PhaseState

NEEDS_SERVER = frozenset({"generate"})
NEEDS_GPUS = frozenset({"extract", "train", "bench"})
"""Phases that use the GPUs themselves."""
PAUSABLE = frozenset({"generate"})
ENDABLE = PAUSABLE | {"extract", "train"}
"""What can end with what is there."""

MAX_BACKOFF_S = 60.0


@dataclass(frozen=True)
class Facts:
    """All that decides about one phase now."""

    name: str
    wanted: bool
    """Named in run.toml."""
    up: bool
    """The operator wants the run to go on (not `down`)."""
    upstream: tuple[tuple[str, PhaseState], ...]
    """The wanted phases before it, with their states."""
    made: bool
    """Its manifest is there."""
    early: str = ""
    stale: str = ""
    alive: bool = False
    """A worker of it runs."""
    failed: str = ""
    """Why it is given up; empty: it is not."""
    retry_in_s: float | None = None
    """Seconds until the next restart after a death."""
    retry_reason: str = ""
    pause: str = "no"
    flow_mode: str = ""
    flow_reason: str = ""
    idle_s: float = 0.0
    """Seconds without a sign of progress."""
    stall_s: float = 180.0
    servers_idle: bool = True
    """No server of ours holds GPU memory."""
    starting: str = ""
    """A server that is on its way to take requests, in words; empty: none is."""
    finishing: bool = False
    """Asked to end with what is there."""


@dataclass(frozen=True)
class Decision:
    """State of the phase, why, and whether its worker is to be launched now."""

    state: PhaseState
    reason: str = ""
    launch: bool = False


def decide(f: Facts) -> Decision:
    """What a phase is and what is to be done about it."""
    if f.alive:
        return _alive(f)
    if not f.wanted:
        return Decision("blocked", "not named in run.phases")
    if f.made:
        if f.stale:
            return Decision("stale", f"{f.stale}; `rerun {f.name}` makes it anew")
        return Decision("done", f"early: {f.early}" if f.early else "")
    if f.failed:
        return Decision("failed", f.failed)
    for name, state in f.upstream:
        if state in ("failed", "stale", "blocked"):
            return Decision("blocked", f"{name} is {state}")
    if any(state != "done" for _, state in f.upstream):
        return Decision("pending")
    if not f.up:
        return Decision("pending", "the run is down; `eagle-tui up` goes on")
    if f.retry_in_s is not None and f.retry_in_s > 0:
        return Decision("pending", f"{f.retry_reason}; restart in {f.retry_in_s:.0f} s")
    if f.pause != "no" and f.name in PAUSABLE and not f.finishing:
        return Decision("paused", "paused before it began")
    if f.name in NEEDS_GPUS and not f.servers_idle:
        return Decision("pending", "waiting for the servers to stop and free their memory")
    return Decision("running", "starting", launch=True)


def _alive(f: Facts) -> Decision:
    """The state of a phase whose worker runs."""
    if f.flow_mode == "paused":
        return Decision("paused", f.flow_reason)
    if f.flow_mode in ("draining", "finishing"):
        return Decision("draining", f.flow_reason)
    if f.pause != "no" and f.name in PAUSABLE and f.flow_mode:
        return Decision("draining", "pausing")
    if f.finishing and not f.flow_mode:
        return Decision("draining", "ends with what is there")
    if f.flow_mode == "waiting" and f.starting:
        return Decision("running", f"waits for {f.starting}")
    if f.flow_mode == "waiting":
        return Decision("stalled", f.flow_reason or "waiting for a server")
    if f.idle_s > f.stall_s:
        return Decision("stalled", f"no progress for {f.idle_s:.0f} s; still running")
    return Decision("running", f.flow_reason)


@dataclass(frozen=True)
class Deaths:
    """How often in a row something died without getting anything done."""

    times: tuple[float, ...] = ()
    """Monotonic times of the deaths within the window."""

    def after(self, now: float, window_s: float, lived_s: float = 0.0) -> Deaths:
        """One more death at `now`, of something that lived for `lived_s`. Those older than the
        window are forgotten; what takes long to die has a window in which it can die often."""
        window = max(window_s, (len(self.times) + 2) * lived_s)
        return Deaths((*(t for t in self.times if now - t <= window), now))

    def backoff_s(self, first_s: float) -> float:
        """Wait before the next start: doubled with each death, MAX_BACKOFF_S at most."""
        if not self.times:
            return 0.0
        doublings = min(len(self.times) - 1, 20)
        return float(min(MAX_BACKOFF_S, first_s * 2**doublings))
