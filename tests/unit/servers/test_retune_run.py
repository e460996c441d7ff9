"""What changes of settings look at of a real board."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from server_bench import Bench

from eagle_tui.clock import SystemClock
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.server.context import Context
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
