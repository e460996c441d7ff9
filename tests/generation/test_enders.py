"""Ending requests on servers that hang."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from eagle_tui.clock import SystemClock
from eagle_tui.pipeline.generation import enders
from eagle_tui.pipeline.generation.enders import Enders
from eagle_tui.pipeline.generation.flight import Flight

GUARD_S = 60.0
"""Only for a test that fails."""


class Server:
    """It ends what it is told to, or hangs."""

    def __init__(self, name: str, *, hangs: bool) -> None:
        self.name, self._hangs = name, hangs
        self.flights: dict[str, Flight] = {}
        self.client = self

    async def abort(self, rid: str) -> None:
        if self._hangs:
            await asyncio.Event().wait()
        self.flights[rid].landed.set()

    def take(self, rid: str) -> Flight:
        """A request in flight on it."""
        member: Any = self
        nobody: Any = SimpleNamespace(name="d")
        flight = self.flights[rid] = Flight(nobody, nobody, member, 0.0, rid=rid)

        async def run() -> None:
            try:
                await flight.landed.wait()
            finally:
                flight.landed.set()

        flight.task = asyncio.create_task(run())
        return flight


async def test_the_deadline_counts_the_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enders, "ABORTS_AT_ONCE", 0)  # a turn never comes
    ending = Enders(SystemClock(), 600.0, lambda text, level: None)
    flight = Server("s", hangs=True).take("1")
    ending.end_all([flight], "hold", 0.01)
    async with asyncio.timeout(GUARD_S):
        await flight.landed.wait()
    await ending.close()


async def test_a_server_that_hangs_takes_no_turns_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enders, "ABORTS_AT_ONCE", 1)
    ending = Enders(SystemClock(), 600.0, lambda text, level: None)
    hung, well = Server("a", hangs=True).take("1"), Server("b", hangs=False).take("2")
    ending.end_all([hung, well], "hold", 10 * GUARD_S)
    async with asyncio.timeout(GUARD_S):
        await well.landed.wait()
    assert not hung.landed.is_set()
    await ending.close()
    assert hung.task is not None
    hung.task.cancel()
