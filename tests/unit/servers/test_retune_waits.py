"""A change of settings that waits: for requests to finish, or for a key that is not there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from server_bench import Bench
from test_retunes import Run

from eagle_tui.protocol import RetuneStep
from eagle_tui.supervisor.launches import InFlight

New = Callable[..., Bench]


async def test_a_drain_waits_for_what_is_in_flight_however_long_it_takes(bench: New) -> None:
    run = Run(bench({"running": 3, "tok-s": 50.0}, hold_timeout_s=0.1))
    await run.ready()
    run.in_flight = 3
    run.order(in_flight="drain", max_running_requests="16")
    await run.until(lambda: "3 requests in flight finish first" in run.server.reason)
    for _ in range(20):
        await run.step()
    assert run.steps[-1] == "pausing" and len(run.bench.pids()) == 1
    assert run.server.status().tok_s is not None, "it is looked at while it drains"
    # The next supervisor goes on waiting, and counts down.
    run.start()
    run.in_flight = 1
    await run.until(lambda: "1 request in flight finishes first" in run.server.reason)
    run.in_flight = 0
    await run.ended()
    assert run.steps[-1] == "done" and run.server.settings["max-running-requests"] == "16"
    assert not any("with requests still in flight" in said for said in run.bench.said)


async def test_a_drain_does_not_wait_when_the_run_is_taken_down(bench: New) -> None:
    run = Run(bench(hold_timeout_s=0.1))
    await run.ready()
    run.in_flight = 3
    run.order(in_flight="drain", max_running_requests="16")
    await run.until(lambda: "finish first" in run.server.reason)
    run.going_down = True
    assert run.retunes.leaving("one") == "hold"
    await run.until(lambda: run.server.idle)


async def test_a_server_that_hangs_over_its_last_requests_is_not_waited_for(bench: New) -> None:
    run = Run(bench({"running": 3}, hang_s=1.5))
    await run.ready()
    run.in_flight = 3
    run.order(in_flight="drain", max_running_requests="16")
    await run.until(lambda: run.now.step == "starting")
    run.in_flight = 0
    await run.ended()
    assert run.now.step == "done"
    assert any("made no tokens" in said and "drained" in said for said in run.bench.said)


@pytest.mark.parametrize("how", ["hold", "abort"])
async def test_what_is_not_waited_for_is_cut_off_at_the_deadline(bench: New, how: InFlight) -> None:
    run = Run(bench(hold_timeout_s=0.1))
    await run.ready()
    run.in_flight = 3
    run.order(in_flight=how, max_running_requests="16")
    await run.until(lambda: run.retunes.leaving("one") == how)
    await run.until(lambda: run.now.step == "starting")
    assert run.retunes.leaving("one") == "hold", "only while it stops"
    await run.ended()
    assert run.now.step == "done"


@pytest.mark.parametrize(
    "step", ["pausing", "stopping", "starting", "ready", "resuming", "reverting"]
)
async def test_revived_without_the_key_it_stops_nothing_and_waits(
    bench: New, step: RetuneStep
) -> None:
    run = Run(bench({"ready-after-s": 0.2}))
    await run.ready()
    good = step != "reverting"
    run.order(**({"max_running_requests": "16"} if good else {"say": "dead", "code": "7"}))
    await run.until(lambda: run.now.step == step)
    if step == "starting":
        await run.until(lambda: run.server.idle or len(run.bench.pids()) == 2)
    begun = run.server.idle
    run.missing = "the environment variable KEY is not set"
    run.start()
    for _ in range(40):
        await run.step()
    serving = run.server.state in ("ready", "starting")
    if step in ("pausing", "ready", "resuming"):
        assert serving, "what serves goes on serving"
    if begun:
        assert run.server.idle, "what could not be started is not tried"
    if run.retunes.waits("one"):
        told = [said for said in run.bench.said if "the retune waits" in said]
        assert told == ["error: the retune waits: the environment variable KEY is not set"]
        status = run.retunes.status("one")
        assert status is not None and status.waits == run.missing
    else:
        assert not run.now.open or serving
    launches = len(run.bench.pids())
    # Brought up where the key is, it goes on.
    run.missing = ""
    run.start()
    await run.ended()
    assert run.now.step == ("done" if good else "rolled_back")
    await run.ready()
    assert run.alive() == 1 and len(run.bench.pids()) <= launches + 2
    assert run.server.settings["max-running-requests"] == ("16" if good else "8")


async def test_a_server_that_dies_without_the_key_while_it_is_stopped_waits(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    run.order(max_running_requests="16")
    await run.until(lambda: run.now.step == "pausing")
    run.missing = "no key"
    run.start()
    await run.step()
    os.kill(run.bench.pids()[-1], signal.SIGKILL)
    await run.until(lambda: run.now.step == "starting")
    for _ in range(20):
        await run.step()
    assert run.server.idle and run.server.state == "stopped" and len(run.bench.pids()) == 1
    assert run.retunes.waits("one") == "no key"
