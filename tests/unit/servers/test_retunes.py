"""A change of settings, step by step, with deaths of server and supervisor between the steps."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from server_bench import SCRIPTED, Bench

from eagle_tui import proc
from eagle_tui.clock import SystemClock
from eagle_tui.config.command import command_line
from eagle_tui.ports import free_port
from eagle_tui.protocol import CommandStatus, RetuneStep, ServerState
from eagle_tui.supervisor.launches import ENDS, Retune, Settings
from eagle_tui.supervisor.server.context import Wish
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.tuning.flags import Flags
from eagle_tui.supervisor.tuning.order import ServerView, orders
from eagle_tui.supervisor.tuning.retunes import Retunes

New = Callable[..., Bench]
GOOD = ("requested", "pausing", "stopping", "starting", "ready", "resuming")
BAD = ("requested", "pausing", "stopping", "starting", "reverting", "resuming")


@dataclass
class Run:
    """One run under a supervisor that can be replaced at any moment."""

    bench: Bench
    refusal: str = ""
    going_down: bool = False
    quiet: bool = False
    """Generation does not send to it while it has other settings than those of run.toml."""
    missing: str = ""
    """Which key the supervisor has not, that would start it again."""
    in_flight: int = 0
    command: int = 0
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new supervisor: it knows what stands in the state file."""
        self.server = self.bench.server()
        self.retunes = Retunes(
            self, self.bench.store, SystemClock(), {"one": self.server}, self.bench.say
        )

    # -- what Retunes asks ------------------------------------------------------------------------

    @property
    def root(self) -> Path:
        return self.bench.root

    def view(self, server: ManagedServer, flags: Flags | None) -> ServerView:
        config = self.bench.config
        argv = tuple(command_line(config, config.server[0], self.bench.root, 0))
        return ServerView(
            "one", argv, self.tuned("one"), server.settings, flags, refusal=self.refusal
        )

    def help_argv(self, server: ManagedServer) -> list[str]:
        return list(self.view(server, None).argv)

    def no_key(self, server: str) -> str:
        return self.missing

    def down(self) -> bool:
        return self.going_down

    def sending(self, server: str) -> bool:
        return self.server.endpoint() is not None and not (self.quiet and self.tuned("one"))

    def tuned(self, server: str) -> Settings:
        return self.bench.store.get("tuned") or {}

    def in_force(self, server: str, settings: Settings, also: Callable[[], None]) -> None:
        with self.bench.store.transaction():
            self.bench.store.put("tuned", dict(settings))
            also()

    # -- driving ----------------------------------------------------------------------------------

    def order(self, in_flight: str = "hold", **settings: Any) -> None:
        typed = {key.replace("_", "-"): value for key, value in settings.items()}
        for one in orders(self.retunes.views(), None, typed, in_flight):
            self.command += 1
            id = f"c{self.command}"
            now = time.time()
            self.bench.store.request(
                CommandStatus(id=id, verb="retune", args={}, state="requested", at=now)
            )
            self.bench.store.servers.add_retune(id, one, now)
        self.retunes.reload()

    def undo(self) -> tuple[str, str]:
        """What the last order can be taken back by, as words, and from what."""
        command = self.bench.store.commands_like(f"c{self.command}")[0]
        return command.status.undo, json.dumps([[e.before, e.after] for e in command.edits])

    @property
    def now(self) -> Retune:
        return self.bench.store.servers.retunes()[-1]

    async def step(self) -> None:
        self.retunes.tick()
        if self.bench.store.servers.retunes() and self.steps[-1:] != [self.now.step]:
            self.steps.append(self.now.step)
        down = self.going_down or self.retunes.wants_down("one")
        wish = Wish(
            not down,
            self.retunes.plan("one"),
            held=not self.in_flight,
            in_flight=self.in_flight,
            leave=self.retunes.leaving("one"),
        )
        await self.server.step(wish)
        await asyncio.sleep(0.02)

    async def until(self, what: Callable[[], Any], seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, (self.steps, self.server.reason, self.bench.said)
            await self.step()

    async def ready(self) -> None:
        """Until it is ready, and has said with what."""
        await self.come("ready")
        await self.server.step(Wish(True, self.retunes.plan("one")))

    async def come(self, state: ServerState) -> None:
        """Until the server is in that state."""
        deadline = time.monotonic() + 20.0
        while self.server.state != state:
            assert time.monotonic() < deadline, self.bench.said
            await self.server.step(Wish(True, self.retunes.plan("one")))
            await asyncio.sleep(0.02)

    async def ended(self) -> None:
        await self.until(lambda: self.now.step in ENDS)

    def started(self, count: int) -> bool:
        """New settings are tried, by a process that is the `count`-th in all."""
        return self.now.step == "starting" and len(self.bench.pids()) == count

    def alive(self) -> int:
        return sum(proc.identify(pid) is not None for pid in self.bench.pids())


async def test_new_settings(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    run.order(max_running_requests="16")
    await run.ended()
    assert run.steps == ["pausing", "stopping", "starting", "ready", "resuming", "done"] or (
        run.steps == ["requested", "pausing", "stopping", "starting", "ready", "resuming", "done"]
    )
    assert run.server.settings["max-running-requests"] == "16"
    assert run.tuned("one") == {"max-running-requests": "16"} and run.alive() == 1
    assert run.now.words == "max-running-requests 8 → 16"
    assert run.now.paused_at and run.now.resumed_at and run.now.resumed_at >= run.now.paused_at
    (mark,) = run.bench.store.marks(0.0)
    assert (mark.kind, mark.text) == ("retune", "one: max-running-requests 8 → 16")
    undo = (
        "one is retuned: max-running-requests as in run.toml",
        '[[{}, {"max-running-requests": "16"}]]',
    )
    assert run.undo() == undo
    # They hold for every later start, and are taken away again by `default`.
    run.order(max_running_requests="default")
    await run.ended()
    assert run.server.settings["max-running-requests"] == "8" and run.tuned("one") == {}


@pytest.mark.parametrize(("step", "good"), [*((s, True) for s in GOOD), *((s, False) for s in BAD)])
async def test_the_supervisor_dies_at_a_step(bench: New, step: RetuneStep, good: bool) -> None:
    run = Run(bench({"ready-after-s": 0.2}))
    await run.ready()
    run.order(**({"max_running_requests": "16"} if good else {"say": "dead", "code": "7"}))
    await run.until(lambda: run.now.step == step)
    for _ in range(2):
        run.start()
        await run.step()
    await run.ended()
    assert run.now.step == ("done" if good else "rolled_back")
    await run.ready()
    assert run.server.settings["max-running-requests"] == ("16" if good else "8")
    assert run.alive() == 1
    assert run.tuned("one") == ({"max-running-requests": "16"} if good else {})


@pytest.mark.parametrize("step", ["requested", "pausing", "stopping", "starting", "resuming"])
async def test_the_server_is_killed_at_a_step(bench: New, step: RetuneStep) -> None:
    run = Run(bench({"ready-after-s": 0.2}))
    await run.ready()
    run.order(max_running_requests="16")
    await run.until(lambda: run.now.step == step)
    if step == "starting":
        await run.until(lambda: len(run.bench.pids()) == 2)
    pid = run.bench.pids()[-1]
    if proc.identify(pid) is not None:
        os.kill(pid, signal.SIGKILL)
    await run.ended()
    assert run.now.step == "done", run.bench.said
    # One that was killed at the end is started again by itself.
    await run.until(lambda: run.bench.pids()[-1] != pid and run.server.state == "ready")
    await run.ready()
    assert run.server.settings["max-running-requests"] == "16" and run.alive() == 1


async def test_settings_are_launched_as_they_were_checked(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    await run.until(lambda: run.retunes.known.of("one")[0])
    run.order(fast="false", sizes="1 2 4")
    await run.ended()
    assert run.now.step == "done", run.now.reason
    assert run.server.settings["fast"] == "false"
    # Another supervisor starts it in the same way, without asking it again.
    os.kill(run.bench.pids()[-1], signal.SIGKILL)
    await run.until(lambda: run.server.idle)
    run.start()
    await run.ready()
    assert run.server.settings["fast"] == "false" and len(run.bench.pids()) == 3


async def test_help_that_could_not_be_read_is_asked_for_again(
    bench: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command stands in the run directory, and is not there yet.
    run = Run(bench(command=["./serve"]))
    flags = run.retunes.known.of

    async def answered() -> str:
        flags("one")
        await run.retunes.known.wait()
        return flags("one")[1]

    assert "./serve cannot be started" in await answered()
    script = run.root / "serve"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {SCRIPTED} "$@"\n')
    script.chmod(0o755)
    assert "./serve cannot be started" in await answered(), "not at once"
    monkeypatch.setattr("eagle_tui.supervisor.tuning.known.HELP_AGAIN_S", 0.0)
    assert await answered() == ""
    found, _ = flags("one")
    assert found is not None and found.get("max-running-requests")


async def test_one_that_waits_for_its_port_says_once_that_it_is_tried_again(bench: New) -> None:
    port = free_port("127.0.0.1")
    run = Run(bench({"ready-after-s": 0.5}, port=port))
    await run.ready()
    run.order(max_running_requests="16")
    await run.until(lambda: run.started(2))
    os.kill(run.bench.pids()[-1], signal.SIGKILL)
    await run.until(lambda: run.server.idle)
    with socket.create_server(("127.0.0.1", port)):
        for _ in range(5):
            await run.step()
        assert run.now.step == "starting" and f"port {port} is taken" in run.server.reason
    assert [s for s in run.bench.said if "tried once more" in s] == [
        "warning: tried once more: it was killed with SIGKILL, and not by us: by somebody, or by "
        "the system for want of memory"
    ]


async def test_both_die_while_it_starts(bench: New) -> None:
    run = Run(bench({"ready-after-s": 0.3}))
    await run.ready()
    run.order(max_running_requests="16")
    await run.until(lambda: run.now.step == "starting" and len(run.bench.pids()) == 2)
    os.kill(run.bench.pids()[-1], signal.SIGKILL)
    await asyncio.sleep(0.1)
    run.start()
    await run.ended()
    assert run.now.step == "done" and run.server.settings["max-running-requests"] == "16"


async def test_settings_that_do_not_start_are_taken_back(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    run.order(max_running_requests="16")
    await run.ended()
    run.order(say="out of everything", code="3", max_running_requests="32")
    await run.ended()
    assert run.now.step == "rolled_back"
    assert run.now.reason == "exit code 3; last line: out of everything"
    assert run.server.state == "ready" and run.alive() == 1
    assert run.server.settings["max-running-requests"] == "16"
    assert run.undo() == ("", "[]"), "there is nothing to take back"
    outcomes = [launch.outcome for launch in run.bench.store.servers.launches()]
    assert outcomes == ["stopped", "stopped", "failed", "running"]


async def test_settings_that_never_get_ready_are_taken_back(bench: New) -> None:
    run = Run(bench(start_timeout_s=0.6))
    await run.ready()
    run.order(ready_after_s="600")
    await run.ended()
    assert run.now.step == "rolled_back" and run.now.reason.startswith("not ready after")
    assert run.server.state == "ready"


@pytest.mark.parametrize("times", [1, 3])
async def test_it_goes_on_after_the_run_was_taken_down(bench: New, times: int) -> None:
    run = Run(bench({"ready-after-s": 0.3}))
    await run.ready()
    run.order(max_running_requests="16")
    for _ in range(times):
        before = len(run.bench.pids())
        run.going_down = False
        await run.until(partial(run.started, before + 1))
        run.going_down = True
        await run.until(lambda: run.server.idle)
        await run.step()
        assert run.now.step == "starting" and run.alive() == 0
        run.start()
    run.going_down = False
    await run.ended()
    assert run.now.step == "done" and run.server.settings["max-running-requests"] == "16"


@pytest.mark.parametrize("at", ["resuming", "done", "revived"])
async def test_settings_that_start_and_then_kill_it_are_taken_back(bench: New, at: str) -> None:
    run = Run(bench(), quiet=at == "resuming")
    await run.ready()
    run.order(die_after_s="1.0", code="3")
    if at == "revived":
        await run.ended()
        run.start()
    await run.until(lambda: run.now.step == "rolled_back")
    # Of a process that another supervisor started nobody knows how it ended.
    assert run.now.reason.startswith("ended; how is not" if at == "revived" else "exit code 3, ")
    assert run.now.reason.endswith(" s after it was ready")
    assert ("done" in run.steps) == (at != "resuming") and run.undo() == ("", "[]")
    assert run.server.state == "ready" and run.alive() == 1 and run.tuned("one") == {}
    assert run.server.settings["die-after-s"] == "-1"


async def test_what_dies_long_after_it_was_ready_is_no_fault_of_the_settings(
    bench: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle_tui.supervisor.tuning.tries.EARLY_S", 0.2)
    run = Run(bench())
    await run.ready()
    run.order(die_after_s="1.0", code="3")
    await run.until(lambda: len(run.bench.pids()) == 3)
    assert run.now.step == "done" and run.tuned("one") == {"die-after-s": "1.0", "code": "3"}


async def test_a_flag_that_the_server_does_not_know_stops_nothing(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    run.order(max_runing_requests="16", code="x y")
    await run.ended()
    assert run.now.step == "refused"
    assert "does not know --max-runing-requests" in run.now.reason
    assert "max-running-requests" in run.now.reason
    assert len(run.bench.pids()) == 1 and run.server.state == "ready"


async def test_what_stands_against_it_after_the_order_stops_nothing(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    run.order(max_running_requests="16")
    run.refusal = "it could not be started again: no key"
    run.start()
    await run.ended()
    assert (run.now.step, run.now.reason) == ("refused", run.refusal)
    assert len(run.bench.pids()) == 1 and run.server.state == "ready"


async def test_a_server_that_failed_can_be_retuned(bench: New) -> None:
    run = Run(bench({"say": "too much", "code": "5"}))
    await run.come("failed")
    run.order(say="none")
    await run.ended()
    assert run.now.step == "done" and run.server.state == "ready"


async def test_when_neither_starts_it_says_so(bench: New) -> None:
    run = Run(bench({"say": "too much", "code": "5"}))
    await run.come("failed")
    run.order(say="even more")
    await run.ended()
    assert run.now.step == "rolled_back"
    assert "last line: even more" in run.now.reason and "do not start either" in run.now.reason


async def test_what_one_server_cannot_do_is_not_tried_on_the_next(bench: New) -> None:
    run = Run(bench())
    await run.ready()
    run.order(say="dead")
    (one,) = orders([run.view(run.server, None)], None, {"say": "dead"})
    run.bench.store.servers.add_retune("c1", one, time.time())
    run.retunes.reload()
    await run.ended()
    first, second = run.bench.store.servers.retunes(command="c1")
    assert (first.step, second.step) == ("rolled_back", "refused")
    assert second.reason == "one could not do it"
