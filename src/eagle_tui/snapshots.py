"""Snapshots of the status over time, from which a run is shown again as it was.

One every 10 s while anything changes, at once when a state does; thinned with age to one a minute
and one in ten minutes. A snapshot of 8 GPUs and 10 datasets takes 2 to 3 kB, so those of the last
three days stay below 15 MB and each day before them takes at most 0.4 MB.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Protocol

from eagle_tui.protocol import Status

EVERY_S = 10.0
QUIET_S = 600.0
"""While nothing changes."""
KEPT: tuple[tuple[float, float], ...] = ((2 * 3600.0, 60.0), (3 * 86400.0, 600.0))
"""(age in seconds, least distance in seconds of the snapshots that are older)."""
THIN_S = 600.0


class SnapshotStore(Protocol):
    """Where snapshots are kept."""

    def put_snapshot(self, at: float, body: bytes) -> None: ...

    def snapshot_span(self) -> tuple[float, float] | None: ...

    def thin_snapshots(self, since: float, before: float, step_s: float) -> None: ...


def pack(status: Status) -> bytes:
    """A snapshot as it is kept."""
    return zlib.compress(json.dumps(status.to_json(), separators=(",", ":")).encode(), 6)


def unpack(body: bytes) -> Status:
    """The snapshot again. ValueError when it is none."""
    try:
        return Status.from_json(json.loads(zlib.decompress(body)))
    except zlib.error as error:
        raise ValueError(f"a snapshot cannot be read: {error}") from error


def states(status: Status) -> tuple[object, ...]:
    """What is worth a snapshot at once when it changes."""
    return (
        status.supervisor.state,
        tuple((p.name, p.state, p.attempt) for p in status.phases),
        tuple((s.name, s.state) for s in status.servers),
        tuple((d.name, d.state) for d in status.datasets),
        tuple(a.rule for a in status.alerts if a.severity == "error"),
        tuple((c.id, c.state) for c in status.commands),
    )


def content(status: Status) -> dict[str, Any]:
    """All that counts as a change: neither time passing nor the machine's own noise does."""
    body = status.to_json()
    for key in ("at", "host", "gpus", "alerts"):
        body.pop(key)
    body["run"].pop("elapsed_s")
    for server in body["servers"]:
        server.pop("age_s")
    return body


class Snapshots:
    """Decides when to keep a snapshot, and which of the old ones to let go."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store
        span = store.snapshot_span()
        self._at = span[1] if span else float("-inf")
        self._states: tuple[object, ...] = ()
        self._content: dict[str, Any] = {}
        self._looked = float("-inf")
        self._thinned_at = float("-inf")
        self._thinned_to = dict.fromkeys(KEPT, 0.0)

    def offer(self, status: Status) -> None:
        """Keep this snapshot if it is worth it; call about once a second."""
        now = status.at
        changed = states(status) != self._states
        if not changed and 0 <= now - self._looked < EVERY_S:
            return
        self._looked = now
        found = content(status)
        if not changed and found == self._content and 0 <= now - self._at < QUIET_S:
            return
        self._store.put_snapshot(now, pack(status))
        self._at, self._states, self._content = now, states(status), found
        if not 0 <= now - self._thinned_at < THIN_S:
            self._thinned_at = now
            self._thin(now)

    def _thin(self, now: float) -> None:
        """Each age is gone through once; what is at its border keeps whole steps."""
        for rule, since in self._thinned_to.items():
            age, step = rule
            before = (now - age) // step * step
            if before > since:
                self._store.thin_snapshots(since, before, step)
                self._thinned_to[rule] = before
