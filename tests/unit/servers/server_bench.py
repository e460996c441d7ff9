"""Servers that are driven step by step, over real processes that start in no time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from eagle_tui.clock import SystemClock
from eagle_tui.config.model import RunConfig
from eagle_tui.protocol import GpuStatus
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.server.context import Context, Plan, Wish
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.store import Store

SCRIPTED = Path(__file__).parent / "scripted.py"


@dataclass
class Bench:
    """One run directory with one server, its state file, and what was said."""

    root: Path
    http: httpx.AsyncClient
    settings: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)
    gpus: list[GpuStatus] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(self.root / "state.sqlite")
        self.config = self.make_config()

    def make_config(self) -> RunConfig:
        server = {
            "name": "one",
            "command": [sys.executable, "-I", "-S", str(SCRIPTED)],
            "flags": self.flags,
            "stop_timeout_s": 3.0,
            "hold_timeout_s": 0.5,
            **self.settings,
        }
        return RunConfig.model_validate(
            {
                "target": {"model": str(self.root)},
                "server": [server],
                "dataset": [{"name": "d", "source": "d.jsonl"}],
                "supervisor": {"backoff_s": 0.05, "restarts": 2},
            }
        )

    def say(self, severity: str, source: str, text: str) -> None:
        self.said.append(f"{severity}: {text}")

    def server(self) -> ManagedServer:
        """The server, as a supervisor that starts now sees it."""
        context = Context(
            RunDir(self.root),
            self.store,
            SystemClock(),
            self.http,
            self.say,
            lambda: tuple(self.gpus),
        )
        return ManagedServer(self.config, self.config.server[0], context)

    async def until(
        self,
        server: ManagedServer,
        what: Callable[[], Any],
        *,
        run: bool = True,
        plan: Plan | None = None,
        held: bool = True,
        in_flight: int = 0,
        seconds: float = 15.0,
    ) -> None:
        """Drive the server until `what()` holds."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, (server.state, server.reason, self.said)
            await server.step(Wish(run, plan or Plan(), held, in_flight))
            await asyncio.sleep(0.02)

    async def steps(self, server: ManagedServer, count: int, **wanted: Any) -> None:
        """Drive it for so many steps."""
        done = 0

        def enough() -> bool:
            nonlocal done
            done += 1
            return done > count

        await self.until(server, enough, **wanted)

    async def ready(self, server: ManagedServer, plan: Plan | None = None) -> None:
        """Drive it until it is ready."""
        await self.until(server, lambda: server.state == "ready", plan=plan)

    def pids(self) -> list[int]:
        """Every process that the server was, the oldest first."""
        return [int(line) for line in (self.root / "pids").read_text().split()]
