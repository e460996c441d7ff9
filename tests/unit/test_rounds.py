"""How often the supervisor looks, and what each round sees to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.clock import Clock, ManualClock
from eagle_tui.supervisor import core
from eagle_tui.supervisor.core import LIVELY_S, TICK_S, Supervisor


def test_the_desired_state_is_put_back_when_it_was_removed(
    tmp_path: Path, supervise: Callable[[Path, Clock], Supervisor]
) -> None:
    supervisor = supervise(tmp_path, ManualClock(1.0))
    path = supervisor.board.run.desired
    for _ in range(2):
        assert not supervisor._round()
        path.unlink()  # FileNotFoundError: it was not written anew


async def test_a_calm_supervisor_looks_seldom_and_an_order_wakes_it(
    tmp_path: Path,
    supervise: Callable[[Path, Clock], Supervisor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "CALM_TICK_S", 3600.0)
    clock = ManualClock(1.0)
    supervisor = supervise(tmp_path, clock)
    async with asyncio.timeout(60):
        await supervisor._rest(TICK_S)  # it has just begun
        clock.advance(LIVELY_S)
        calm = asyncio.create_task(supervisor._rest(TICK_S))
        await asyncio.sleep(2 * TICK_S)
        assert not calm.done()
        supervisor.wake()
        await calm
        await supervisor._rest(TICK_S)  # what comes of an order is followed closely
