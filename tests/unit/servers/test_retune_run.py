"""What changes of settings look at of a real board."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from server_bench import Bench

from eagle_tui.clock import SystemClock
from eagle_tui.protocol import CommandRequest, CommandStatus
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.orders import Orders
from eagle_tui.supervisor.server.context import Context
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.order import RetuneOrder
from eagle_tui.supervisor.tuning.run import RetuneRun

New = Callable[..., Bench]


def make_board(bench: Bench) -> Board:
    run, clock = RunDir(bench.root), SystemClock()
    context = Context(run, bench.store, clock, bench.http, bench.say, tuple)
    return Board(run, bench.config, bench.store, clock, context)


async def test_without_its_key_a_server_is_not_stopped(
    bench: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = make_board(bench(api_key_env="EAGLE_TEST_KEY"))
    run, (server,) = RetuneRun(board), board.servers
    monkeypatch.setenv("EAGLE_TEST_KEY", "k")
    assert run.view(server, None).refusal == ""
    monkeypatch.delenv("EAGLE_TEST_KEY")
    refusal = run.view(server, None).refusal
    assert refusal.startswith("it could not be started again: the environment variable EAGLE_TEST")


class Orderly:
    """A board whose commands and server are driven step by step."""

    def __init__(self, board: Board) -> None:
        self.board, (self.server,) = board, board.servers
        self.orders = Orders(board)
        self.count = 0

    async def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20.0
        while not what():
            assert time.monotonic() < deadline, (self.server.reason, self.board.store.commands_in())
            self.board.retunes.tick()
            self.board.publish()
            await self.server.step(self.board.wish(self.server))
            self.orders.see_effects()
            await asyncio.sleep(0.02)

    async def order(self, verb: str, **args: object) -> CommandStatus:
        """Until it is in effect, or refused."""
        self.count += 1
        id = f"c{self.count}"
        self.orders.request(CommandRequest(id=id, verb=verb, args=args))

        def found() -> CommandStatus:
            command = self.board.store.command(id)
            assert command is not None
            return command.status

        await self.until(lambda: found().state in ("in_effect", "refused"))
        return found()

    @property
    def tuned(self) -> object:
        return self.board.desired.tuned.get("one", {})


async def test_a_retune_is_taken_back_by_the_same_verb_as_everything_else(bench: New) -> None:
    run = Orderly(make_board(bench({"max-running-requests": 8})))
    await run.until(lambda: run.server.state == "ready")
    settings = {"max-running-requests": "16"}
    done = await run.order("retune", settings=settings, in_flight="drain")
    assert done.state == "in_effect" and run.tuned == settings
    assert done.undo == "one is retuned: max-running-requests as in run.toml"
    taken = await run.order("undo")
    assert taken.state == "in_effect" and run.tuned == {}
    assert run.server.settings["max-running-requests"] == "8"
    # It was changed since, so there is nothing left; but the undo itself can be taken back.
    nothing = await run.order("undo")
    assert (nothing.state, nothing.reason) == (
        "refused",
        "there is no command that can be taken back",
    )
    again = await run.order("undo", command="c2")
    assert again.state == "in_effect" and run.tuned == settings
    # What changed nothing cannot be taken back.
    failed = await run.order("retune", settings={"say": "dead", "code": "3"})
    assert failed.state == "refused" and "rolled back" in failed.reason and failed.undo == ""
    refused = await run.order("undo", command="c5")
    assert refused.reason == "this retune changed nothing that could be taken back"
    assert run.tuned == settings


def test_a_retune_of_an_older_program_held_what_was_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    store = Store(path)
    order = RetuneOrder("one", {"f": "2"}, {}, {"f": "2"}, "f 1 → 2", in_flight="abort")
    store.servers.add_retune("c", order, 1.0)
    assert [r.in_flight for r in store.servers.retunes()] == ["abort"]
    store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("ALTER TABLE retunes DROP COLUMN in_flight")
    again = Store(path)
    assert [(r.words, r.in_flight) for r in again.servers.retunes()] == [("f 1 → 2", "hold")]
    again.close()
