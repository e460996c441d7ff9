"""Changing a server's settings under load, with kill -9 of supervisor and engine on the way: no
prompt is lost or doubled, nothing is left behind, and what cannot start is taken back."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Callable

import pytest
from harness import Run

from eagle_tui import proc
from eagle_tui.client import SocketClient
from eagle_tui.protocol import Mark, Status

pytestmark = pytest.mark.slow


SLOWLY = ("generate.concurrency=1", "generate.concurrency_long=1")
"""So that there is work until the end."""


def step(status: Status) -> str:
    retune = status.servers[0].retune
    return retune.step if retune else ""


def kill(run: Run, kind: str) -> None:
    for process in run.processes(kind):
        proc.send(process, signal.SIGKILL)


def until_step(run: Run, wanted: str) -> None:
    """Until the retune is at that step; steps are short, so it is looked often."""
    deadline = time.monotonic() + 60
    while step(run.status()) != wanted:
        assert time.monotonic() < deadline, run.story()
        time.sleep(0.02)


def launches(run: Run) -> list[dict[str, object]]:
    lines = run.eagle("launches", str(run.root), "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def ended(run: Run) -> Status:
    """Until the newest retune is settled."""
    return run.wait(
        "the retune settled",
        lambda s: s.commands[-1].state in ("in_effect", "refused") and not step(s),
    )


def test_retunes_under_load_survive_kills(new_run: Callable[..., Run]) -> None:
    run = new_run(*SLOWLY, rows=12)
    run.up()
    run.wait("responses come", lambda s: (s.phases[1].done or 0) >= 3)

    # The supervisor dies while the new settings start, and the engine with it.
    run.verb("retune", "max-running-requests=6", "--wait", "0")
    until_step(run, "starting")
    kill(run, "supervisor")
    kill(run, "engine")
    status = ended(run)
    assert status.commands[-1].state == "in_effect", run.story()
    assert launches(run)[-1]["settings"] == {"max-running-requests": "6"}

    # What cannot start is taken back, although the supervisor dies while it goes back.
    refused = run.verb("retune", "engine", "no-such-flag=1", check=False)
    assert refused.returncode == 3 and "does not know --no-such-flag" in refused.stderr
    run.verb("retune", "context-length=99999999", "max-running-requests=9", "--wait", "0")
    until_step(run, "reverting")
    kill(run, "supervisor")
    status = ended(run)
    assert status.commands[-1].state == "refused"
    assert "rolled back" in status.commands[-1].reason
    assert "positions up to" in status.commands[-1].reason
    assert launches(run)[-1]["settings"] == {"max-running-requests": "6"}

    # The settings hold over the end of the run, which goes on with them.
    run.down()
    run.up()
    status = run.wait("the server is ready again", lambda s: s.servers[0].state == "ready")
    assert launches(run)[-1]["settings"] == {"max-running-requests": "6"}
    for data in status.datasets:
        if data.kind == "prompts":
            run.verb("concurrency", data.name, "16")
    run.wait_done()
    run.assert_each_once()
    run.down()
    assert run.processes("engine") == []


def test_a_paused_run_stays_paused_and_a_removed_one_ends(new_run: Callable[..., Run]) -> None:
    run = new_run(*SLOWLY, rows=4)
    run.up()
    run.wait("responses come", lambda s: (s.phases[1].done or 0) >= 1)
    run.verb("pause")
    run.wait("paused", lambda s: s.phases[1].state == "paused")
    done = run.verb("retune", "max-running-requests=6")
    assert "in effect" in done.stdout
    # The status is made once a second.
    status = run.wait("the server is ready", lambda s: s.servers[0].state == "ready")
    assert status.phases[1].state == "paused"
    assert [m.kind for m in _marks(run)][-1] == "retune"
    before = status.phases[1].done
    time.sleep(1.0)
    assert run.status().phases[1].done == before
    run.verb("resume")
    run.wait("it goes on", lambda s: (s.phases[1].done or 0) > (before or 0))

    # The directory is removed: nobody can steer these processes any more, so they end.
    left = [p for kind in ("supervisor", "engine", "generate") for p in run.processes(kind)]
    assert len(left) == 3
    shutil.rmtree(run.root)
    deadline = time.monotonic() + 60
    while any(proc.alive(p) for p in left):
        assert time.monotonic() < deadline, "processes were left behind"
        time.sleep(0.1)


def _marks(run: Run) -> list[Mark]:
    async def ask() -> list[Mark]:
        async with SocketClient(run.dir) as client:
            return await client.marks(0.0)

    return asyncio.run(ask())
