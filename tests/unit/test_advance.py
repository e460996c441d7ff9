"""`advance` that names no phase is about the one that stood out when it was accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eagle_tui.clock import Clock, ManualClock
from eagle_tui.config import PHASES
from eagle_tui.protocol import CommandRequest
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.supervisor.phases import Decision


def test_it_is_in_effect_when_that_phase_is_done(
    tmp_path: Path, supervise: Callable[[Path, Clock], Supervisor]
) -> None:
    clock = ManualClock(1.0)
    supervisor = supervise(tmp_path, clock)
    board, orders = supervisor.board, supervisor.orders
    log = WorkerLog(board.run.events("train", 1), clock)
    log.emit("progress", done=5, total=10, unit="steps")
    log.close()
    board.figures.follow("train", 1)
    board.figures.poll()
    board.decisions = {phase: Decision("done") for phase in PHASES}
    board.decisions["train"] = Decision("running")
    stored = orders.request(CommandRequest(id="1", verb="advance"))
    assert (stored.state, stored.args) == ("accepted", {"phase": "train"})
    orders.see_effects()
    assert board.store.commands_in("accepted")
    board.decisions["train"] = Decision("done")
    orders.see_effects()
    assert board.store.commands_in("in_effect")
    assert board.store.marks(0.0)[-1].text == "advance train"
