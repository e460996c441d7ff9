"""How much an endpoint may have in flight: less when overloaded, more while it has room. Pure.

What runs is the measure, not what is in flight: a server with 50
requests running and 100 queued that retracts is helped only by fewer than 50. Two causes lower the
limit: a refusal because the server is too busy (always followed), and a retraction (a request that
was begun is thrown out of the KV cache and computed again; followed with `adaptive`).
"""

from __future__ import annotations

from dataclasses import dataclass

FALL = 0.8
REFUSED_FALL = 0.7
ROOM = 0.85
"""Share of the KV cache in use below which there is room for more."""
REST_S = 15.0
"""After a fall, so long until the next one: what is in flight has to leave first."""
RISE = 0.1
"""A rise is this share of the limit, and one request at least."""


@dataclass(frozen=True, slots=True)
class Load:
    """One reading of an endpoint's own figures. None: it does not tell."""

    work: float | None = None
    """Tokens read and generated since it started."""
    kv_usage: float | None = None
    """Share of the KV cache in use, 0..1."""
    running: int | None = None
    waiting: int | None = None
    """Requests that it has queued."""
    retractions: float | None = None
    """Requests retracted since it started."""


class Governor:
    """Limit of one endpoint. `limit` None: as many as come."""

    def __init__(self, *, adaptive: bool) -> None:
        self._adaptive = adaptive
        self._retractions: float | None = None
        self._rest_until = float("-inf")
        self.limit: float | None = None

    def refused(self, in_flight: int, now: float) -> None:
        """It was too busy to take a request, with so many others in flight. A burst of refusals
        says the same of all that were in flight, so it lowers the limit once."""
        if now < self._rest_until:
            return
        self.limit = max(1.0, min(self.limit or float("inf"), in_flight) * REFUSED_FALL)
        self._rest_until = now + REST_S

    def answered(self, in_flight: int, now: float) -> None:
        """It answered one. Without readings this is the only sign of room: a rise each round (as
        many answers as the limit), until the limit is out of reach."""
        if self._adaptive or self.limit is None or now < self._rest_until:
            return
        self.limit += max(1.0 / self.limit, RISE)
        if self.limit > 2 * in_flight + 16:
            self.limit = None

    def read(self, load: Load, in_flight: int, now: float) -> None:
        """A reading, at monotonic time `now`."""
        if not self._adaptive:
            return
        before, self._retractions = self._retractions, load.retractions
        if before is not None and load.retractions is not None and load.retractions > before:
            if now >= self._rest_until:
                measure = min(in_flight, load.running) if load.running else in_flight
                self.limit = max(1.0, measure * FALL)
                self._rest_until = now + REST_S
            return
        if self.limit is None or now < self._rest_until:
            return
        room = (load.kv_usage is None or load.kv_usage < ROOM) and not load.waiting
        # A limit that is not reached says nothing about more.
        if room and in_flight >= 0.9 * self.limit:
            self.limit += max(1.0, RISE * self.limit)

    def full(self, in_flight: int) -> bool:
        """May it have no more in flight?"""
        return self.limit is not None and in_flight >= self.limit
