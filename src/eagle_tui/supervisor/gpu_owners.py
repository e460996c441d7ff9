"""Whose the processes on the GPUs are: a server's, a phase's, or somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from eagle_tui import proc
from eagle_tui.protocol import GpuStatus
from eagle_tui.supervisor.store import Attempt

OTHER = "other"
KEEP = 1000
"""Processes whose owner is remembered; a run of days sees few."""


def named(attempt: Attempt) -> str:
    """How an attempt is called on the screen."""
    return f"server {attempt.name}" if attempt.kind == "server" else attempt.name


class Owners:
    """Finds the owner of a process by its session, or by the token in its environment. What is
    neither is `other`; so are, in a container that is told the pids of the host, all of them.

    `attempts`: those that have not ended.
    """

    def __init__(self, attempts: Callable[[], Iterable[Attempt]]) -> None:
        self._attempts = attempts
        self._known: dict[proc.Process, str] = {}

    def told(self, gpus: tuple[GpuStatus, ...]) -> tuple[GpuStatus, ...]:
        """The same with the owners of their processes."""
        if not any(gpu.processes for gpu in gpus):
            return gpus
        open_now = list(self._attempts())
        return tuple(
            gpu
            if gpu.processes is None
            else gpu.model_copy(
                update={"owners": tuple(self._owner(pid, open_now) for pid, _ in gpu.processes)}
            )
            for gpu in gpus
        )

    def _owner(self, pid: int, attempts: list[Attempt]) -> str:
        process = proc.identify(pid)
        if process is None:
            return OTHER
        if process not in self._known:
            owner = _find(pid, attempts)
            if owner == OTHER and proc.token_of(pid):
                return OTHER  # of an attempt that is not recorded yet
            if len(self._known) >= KEEP:
                self._known.clear()
            self._known[process] = owner
        return self._known[process]


def _find(pid: int, attempts: list[Attempt]) -> str:
    session = proc.session_of(pid)
    for attempt in attempts:
        if attempt.process is not None and attempt.process.pid == session:
            return named(attempt)
    token = proc.token_of(pid)
    return next((named(a) for a in attempts if token and a.token == token), OTHER)
