"""What the worker tells through its event log, never more often than needed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from eagle_tui.clock import Clock
from eagle_tui.rundir.events import WorkerLog

from .flow import Flow

INTERVAL_S = 1.0
LOAD_INTERVAL_S = 5.0
BEGUN_INTERVAL_S = 15.0


class Report:
    """Events in order. On a full disk they wait in memory: a `result` must not get lost, since the
    reader adds them up."""

    def __init__(self, log: WorkerLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()  # retries are carried out in a thread beside the pool
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._last: dict[str, tuple[dict[str, Any], float]] = {}

    def emit(self, kind: str, **fields: Any) -> None:
        """Write an event, after those that still wait."""
        self._waiting.append((kind, fields))
        self.flush()

    def note(self, text: str, severity: str = "info") -> None:
        """Say something to the operator."""
        self.emit("note", severity=severity, text=text)

    def flush(self) -> None:
        """Write what waits, as far as the disk takes it."""
        with self._lock:
            while self._waiting:
                kind, fields = self._waiting[0]
                try:
                    self._log.emit(kind, **fields)
                except OSError:
                    return  # the writer of the responses meets the same disk and says so
                self._waiting.popleft()

    def flow(
        self,
        flow: Flow,
        *,
        in_flight: dict[str, int],
        seq: int,
        oldest_s: float,
        endpoints: dict[str, str],
        at_once: bool = False,
    ) -> None:
        """Tell what the phase does: a new mode, order or endpoint at once, the rest once a
        second."""
        fields = {
            "mode": flow.mode,
            "in_flight": in_flight,
            "seq": seq,
            "reason": flow.reason,
            "oldest_s": round(max(0.0, oldest_s), 1),
            "endpoints": endpoints,
        }
        before = self._last.get("flow", ({}, 0.0))[0]
        urgent = any(before.get(key) != fields[key] for key in ("mode", "seq", "endpoints"))
        self._changed("flow", fields, urgent or at_once)

    def load(self, endpoints: dict[str, dict[str, float | None]]) -> None:
        """Tell what each endpoint did, every few seconds."""
        self._changed("load", {"endpoints": endpoints}, False, LOAD_INTERVAL_S)

    def begun(
        self, look: Callable[[], dict[str, dict[str, int]]], *, at_once: bool = False
    ) -> None:
        """Tell how far the answers are that are not finished, every quarter of a minute; `look` is
        called when it is time."""
        now = self._clock.monotonic()
        before, at = self._last.get("begun", ({}, float("-inf")))
        if not at_once and now - at < BEGUN_INTERVAL_S:
            return
        found = look()
        self._last["begun"] = (found, now)
        if found != before:
            self.emit("begun", datasets=found)

    def progress(self, done: int, total: int, detail: str, *, at_once: bool = False) -> None:
        """Tell how far the phase is, once a second."""
        fields = {"done": done, "total": total, "unit": "responses", "detail": detail}
        self._changed("progress", fields, at_once)

    def _changed(
        self, kind: str, fields: dict[str, Any], urgent: bool, interval_s: float = INTERVAL_S
    ) -> None:
        now = self._clock.monotonic()
        before, at = self._last.get(kind, ({}, float("-inf")))
        if fields == before or (not urgent and now - at < interval_s):
            return
        self._last[kind] = (fields, now)
        self.emit(kind, **fields)
