"""Ending requests ourselves: for a pause, for a stop, because one makes no progress."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection

from eagle_tui.clock import Clock

from .aio import gather_quietly, wait
from .flight import Ending, Flight
from .pool import STILL_S

ABORT_AGAIN_S = 0.5
"""An abort that comes before the server has registered the request does nothing, so it is sent
again until the request has ended."""
ABORT_DEADLINE_S = 5.0
"""A request whose abort is not answered by then loses its connection."""
ABORTS_AT_ONCE = 32
"""On one server."""


class Enders:
    """Ends requests on their servers. `say` tells the operator a sentence."""

    def __init__(self, clock: Clock, stall_s: float, say: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._stall_s = stall_s
        self._say = say
        self._tasks: set[asyncio.Task[None]] = set()
        self._aborting = defaultdict[str, asyncio.Semaphore](
            lambda: asyncio.Semaphore(ABORTS_AT_ONCE)
        )
        """By server: one that hangs keeps no abort from another."""

    def end_all(
        self, flights: Collection[Flight], ending: Ending, deadline_s: float | None = None
    ) -> None:
        """End each one that has no answer and is not being ended yet."""
        for flight in flights:
            if flight.ending is None and not flight.answered:
                self._end(flight, ending, ABORT_DEADLINE_S if deadline_s is None else deadline_s)

    def end_stalled(self, flights: Collection[Flight], now: float) -> None:
        """End those that had no answer for long, on servers that make no tokens."""
        for flight in flights:
            pulse = flight.member.pulse
            if (
                flight.ending is None
                and not flight.answered
                and now - flight.started >= self._stall_s
                and pulse.told
                and pulse.still_s(now) >= min(STILL_S, self._stall_s)
            ):
                self._say(
                    f"{flight.member.name}: a request of {flight.work.name} had no answer for "
                    f"{now - flight.started:,.0f} s and the server makes no tokens; it is ended "
                    "and sent again",
                    "warning",
                )
                self._end(flight, "stall", ABORT_DEADLINE_S)

    async def close(self) -> None:
        """Give up what is under way."""
        await gather_quietly(*self._tasks)

    def _end(self, flight: Flight, ending: Ending, deadline_s: float) -> None:
        flight.ending = ending
        task = asyncio.get_running_loop().create_task(self._abort(flight, deadline_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _abort(self, flight: Flight, deadline_s: float) -> None:
        """End a request on its server and wait until it has ended."""
        task, client = flight.task, flight.member.client
        assert task is not None and client is not None
        by = self._clock.monotonic() + deadline_s
        while not flight.landed.is_set():
            left = by - self._clock.monotonic()
            if left <= 0:
                task.cancel()
                return
            if flight.rid:
                try:
                    # The wait for a turn counts, too: on a server that hangs it takes the longest.
                    async with asyncio.timeout(left), self._aborting[flight.member.name]:
                        await client.abort(flight.rid)
                except TimeoutError:
                    continue
            await wait(flight.landed, min(ABORT_AGAIN_S, left))
