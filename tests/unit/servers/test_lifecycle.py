"""A server's life: launch, readiness, crash, hang, stop, adoption. Over real processes."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from server_bench import Bench

from eagle_tui import proc
from eagle_tui.protocol import GpuStatus
from eagle_tui.supervisor.server.context import Plan

New = Callable[..., Bench]


async def test_start_and_stop(bench: New) -> None:
    b = bench({"enable-metrics": True, "max-total-tokens": 500})
    server = b.server()
    await b.ready(server)
    endpoint = server.endpoint()
    assert endpoint is not None and endpoint.url == server.url
    assert server.settings["max-running-requests"] == "8"
    await b.until(server, lambda: server.status().kv_tokens == 500)
    await b.until(server, lambda: server.idle, run=False)
    (launch,) = b.store.servers.launches()
    assert (launch.outcome, launch.reason, launch.kv_tokens) == ("stopped", "exit code 0", 500)
    assert launch.start_s is not None and launch.settings == {}
    assert not b.said[-1].startswith("warning")


async def test_the_settings_that_were_retuned_are_on_its_command_line(bench: New) -> None:
    b = bench({"max-running-requests": 4})
    server = b.server()
    await b.ready(server, Plan({"max-running-requests": "6", "tok-s": "3"}, retune=7))
    assert (server.settings["max-running-requests"], server.settings["tok-s"]) == ("6", "3.0")
    (launch,) = b.store.servers.launches()
    assert launch.settings == {"max-running-requests": "6", "tok-s": "3"}
    assert launch.retune == 7


async def test_its_endpoint_is_withdrawn_and_requests_come_back_before_it_is_told(
    bench: New,
) -> None:
    b = bench(hold_timeout_s=30.0)
    server = b.server()
    await b.ready(server)
    await b.until(server, lambda: server.state == "stopping", run=False, held=False)
    assert server.endpoint() is None and server.holding
    await b.steps(server, 10, run=False, held=False)
    assert proc.identify(b.pids()[0]) is not None
    await b.until(server, lambda: server.idle, run=False, held=True)
    assert b.store.servers.launches()[0].reason == "exit code 0"


async def test_requests_that_do_not_come_back_do_not_keep_it(bench: New) -> None:
    b = bench(hold_timeout_s=0.1)
    server = b.server()
    await b.ready(server)
    await b.until(server, lambda: server.idle, run=False, held=False)
    assert any("with requests still in flight" in line for line in b.said)


async def test_one_that_does_not_stop_is_killed_with_all_it_started(bench: New) -> None:
    b = bench({"deaf": True, "child": True}, stop_timeout_s=0.2)
    server = b.server()
    await b.ready(server)
    handle = server._handle
    assert handle is not None
    family = handle.family()
    assert len(family) == 2, "the child is found though its environment says nothing"
    await b.until(server, lambda: server.idle, run=False)
    assert not any(proc.alive(process) for process in family)
    assert any("did not stop in 0 s and was killed" in line for line in b.said)


async def test_what_it_leaves_behind_is_killed_and_named(bench: New) -> None:
    b = bench({"child": True})
    server = b.server()
    await b.ready(server)
    assert server._handle is not None
    family = server._handle.family()
    await b.until(server, lambda: server.idle, run=False)
    assert not any(proc.alive(process) for process in family)
    (line,) = [line for line in b.said if "left behind" in line]
    assert "sglang::scheduler 600 (pid" in line


async def test_a_crash_is_explained_and_it_is_started_again(bench: New) -> None:
    b = bench()
    server = b.server()
    await b.ready(server)
    os.kill(b.pids()[0], signal.SIGKILL)
    await b.until(server, lambda: len(b.pids()) == 2 and server.state == "ready")
    first, second = b.store.servers.launches()
    assert first.outcome == "failed" and "SIGKILL" in first.reason and first.remedy
    assert second.outcome == "running"
    assert [mark.kind for mark in b.store.marks(0.0)] == ["crash"]


async def test_it_is_given_up_after_too_many_deaths(bench: New) -> None:
    b = bench({"say": "nothing that is known", "code": 9})
    server = b.server()
    await b.until(server, lambda: server.state == "failed")
    assert "died 3 times, given up" in server.reason
    assert "exit code 9; last line: nothing that is known" in server.reason
    server.forgive()
    await b.until(server, lambda: server.state == "failed")
    assert len(b.store.servers.launches()) == 6


async def test_what_the_same_settings_cannot_mend_is_not_tried_again(bench: New) -> None:
    b = bench({"no-such-flag": True})
    server = b.server()
    await b.until(server, lambda: server.state == "failed")
    (launch,) = b.store.servers.launches()
    assert "no-such-flag" in launch.reason
    assert server.remedy == launch.remedy != ""
    assert server.status().remedy == server.remedy


async def test_a_trial_is_launched_once(bench: New) -> None:
    b = bench()
    server = b.server()
    trial = Plan({"say": "died", "code": "4"}, retune=1, trial=True)
    await b.until(server, lambda: b.store.servers.tries(1, trial.settings)[-1:], plan=trial)
    await b.until(server, lambda: server.idle and server.state == "stopped", plan=trial)
    await b.steps(server, 10, plan=trial)
    assert len(b.store.servers.launches()) == 1
    again = Plan(trial.settings, 1, trial=True, number=2)
    await b.until(server, lambda: len(b.store.servers.launches()) == 2, plan=again)


async def test_a_taken_port_is_waited_for(bench: New) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        b = bench(port=holder.getsockname()[1])
        server = b.server()
        await b.until(server, lambda: "is taken" in server.reason)
        assert b.store.servers.launches() == []


async def test_one_that_never_gets_ready_is_killed(bench: New) -> None:
    b = bench({"ready-after-s": 600}, start_timeout_s=0.5)
    server = b.server()
    await b.until(server, lambda: len(b.store.servers.launches()) == 2)
    assert b.store.servers.launches()[0].reason.startswith("not ready after")


async def test_the_next_start_has_an_estimate(bench: New) -> None:
    b = bench({"ready-after-s": 0.5})
    server = b.server()
    await b.ready(server)
    await b.until(server, lambda: server.idle, run=False)
    assert server.status().eta_s is None
    await b.until(server, lambda: server.state == "starting")
    eta = server.status().eta_s
    assert eta is not None and 0.0 < eta < 15.0


async def test_a_hang_leaves_evidence_and_ends_in_a_restart(
    bench: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text('#!/bin/sh\necho "stacks: $*"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    b = bench({"running": 3}, hang_s=0.5)
    server = b.server()
    await b.ready(server)
    await b.until(server, lambda: len(b.pids()) == 2)
    launch = b.store.servers.launches()[0]
    assert launch.outcome == "hung" and "makes no tokens" in launch.reason
    (evidence,) = (b.root / "logs").glob("hang-server-one-0001-*.txt")
    text = evidence.read_text()
    assert f"stacks: dump --nonblocking --pid {b.pids()[0]}" in text
    assert '"num_running_reqs": 3' in text and "scripted.py" in text
    assert [mark.kind for mark in b.store.marks(0.0)] == ["hang"]


async def test_a_stopped_process_hangs_too(bench: New, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle_tui.telemetry.sglang.POLL_TIMEOUT_S", 0.2)
    monkeypatch.setattr("eagle_tui.supervisor.server.evidence.LOADS_S", 0.2)
    b = bench(hang_s=0.4, on_hang="restart")
    server = b.server()
    await b.ready(server)
    os.kill(b.pids()[0], signal.SIGSTOP)
    await b.until(server, lambda: len(b.pids()) == 2, seconds=30)
    assert "does not answer" in b.store.servers.launches()[0].reason


async def test_work_that_goes_on_is_no_hang(bench: New) -> None:
    b = bench({"running": 3, "tok-s": 50}, hang_s=0.4)
    server = b.server()
    await b.ready(server)
    await b.steps(server, 50)
    assert len(b.pids()) == 1 and server.state == "ready"


async def test_a_hang_can_be_a_warning_only(bench: New) -> None:
    b = bench({"running": 1}, hang_s=0.3, on_hang="warn")
    server = b.server()
    await b.ready(server)
    await b.until(server, lambda: server.state == "unready")
    await b.steps(server, 10)
    assert len(b.pids()) == 1
    assert sum("hangs" in line for line in b.said) == 1
    assert len(list((b.root / "logs").glob("hang-*.txt"))) == 1


async def test_the_next_supervisor_takes_over_what_runs(bench: New) -> None:
    b = bench()
    server = b.server()
    await b.ready(server, Plan({"max-running-requests": "5"}, retune=2))
    again = b.server()
    assert again.state == "ready" and again.endpoint() == server.endpoint()
    assert again.plan == Plan({"max-running-requests": "5"}, retune=2)
    await b.until(again, lambda: again.idle, run=False)
    assert len(b.pids()) == 1


async def test_children_that_outlived_parent_and_supervisor_are_killed(bench: New) -> None:
    b = bench({"child": True})
    server = b.server()
    await b.ready(server)
    assert server._handle is not None
    family = server._handle.family()
    os.kill(b.pids()[0], signal.SIGKILL)
    assert server._handle._child is not None
    server._handle._child.wait()
    again = b.server()
    assert again.idle
    await b.until(again, lambda: not any(proc.alive(p) for p in family), run=False)
    assert any("outlived" in line and "sglang::scheduler" in line for line in b.said)
    assert b.store.servers.launches()[0].outcome == "lost"


async def test_memory_that_does_not_come_back_is_said(
    bench: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle_tui.supervisor.server.closing.MEMORY_S", 0.3)
    b = bench(gpus=[1])
    b.gpus[:] = [GpuStatus(index=i, name="H200", mem_used=1 << 30, age_s=0.5) for i in range(2)]
    server = b.server()
    await b.ready(server)
    b.gpus[:] = [gpu.model_copy(update={"mem_used": 5 << 30}) for gpu in b.gpus]
    await b.until(server, lambda: server.idle, run=False)
    assert any("GPU 1 holds 4.0 GiB more than before the launch" in line for line in b.said)
    assert not any("GPU 0" in line for line in b.said)


async def test_a_model_that_is_not_there_is_said(bench: New) -> None:
    b = bench()
    b.config = b.config.model_copy(
        update={"target": b.config.target.model_copy(update={"model": "./none"})}
    )
    server = b.server()
    await b.until(server, lambda: server.state == "failed")
    assert "cannot be started" in server.reason and "none" in server.reason


async def test_figures_that_are_left_out_are_no_idleness(
    bench: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The poller leaves out what stands still before the server counts as hung.
    monkeypatch.setattr("eagle_tui.telemetry.sglang.FROZEN_S", 0.2)
    b = bench({"running": 3}, hang_s=1.0)
    server = b.server()
    await b.ready(server)
    await b.until(server, lambda: len(b.pids()) == 2)
    assert b.store.servers.launches()[0].outcome == "hung"


async def test_a_server_that_tells_nothing_of_itself_is_not_judged(bench: New) -> None:
    b = bench({"mute": True}, hang_s=0.3)
    server = b.server()
    await b.ready(server)
    deadline = time.monotonic() + 0.8
    await b.until(server, lambda: time.monotonic() > deadline)
    assert server.state == "unready" and len(b.pids()) == 1


async def test_an_address_that_is_not_this_machines(bench: New) -> None:
    b = bench(host="192.0.2.1")
    server = b.server()
    await b.until(server, lambda: server.state == "failed")
    assert server.reason == "cannot listen on 192.0.2.1: Cannot assign requested address"
    assert "`host`" in server.status().remedy and b.store.attempts("server", "one") == []
