"""The supervisor's loop: look, carry out, reconcile, publish, record."""

from __future__ import annotations

import asyncio
import os
import sys

import httpx

from eagle_tui import __version__
from eagle_tui.clock import Clock
from eagle_tui.config import RunConfig
from eagle_tui.history import Recorder
from eagle_tui.protocol import HostStatus, Severity, Status
from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import reconcile
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.orders import Orders
from eagle_tui.supervisor.servers import Context, ManagedServer
from eagle_tui.supervisor.status import StatusMaker
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.workers import severity_of
from eagle_tui.telemetry.gpu import GpuSampler
from eagle_tui.telemetry.host import HostSampler

TICK_S = 0.25
SECOND_S = 1.0
SNAPSHOT_S = 10.0


class Supervisor:
    """One per run directory. Owns the state file; everything runs on one event loop."""

    def __init__(self, run: RunDir, config: RunConfig, store: Store, clock: Clock) -> None:
        self.clock = clock
        self.store = store
        self.recorder = Recorder(store)
        self._http = httpx.AsyncClient(trust_env=False)
        self._gpu = GpuSampler(clock)
        self._host = HostSampler(run.root, clock)
        self._host_status = HostStatus()
        context = Context(run, store, clock, self._http, self.say)
        known_until = store.last_event_at()
        self.board = Board(run, config, store, clock, context)
        # The logs were read from their beginning; what was told before is not told again.
        self.board.figures.drop_notes(known_until)
        self.orders = Orders(self.board)
        self._maker = StatusMaker(self.board)
        reconcile.decide_phases(self.board)
        self.status: Status = self._make_status()

    async def serve(self) -> None:
        """Until `down` is carried out or the task is cancelled. Workers and servers outlive it."""
        self.say("info", "supervisor", f"supervisor {__version__} started (pid {os.getpid()})")
        background = [
            asyncio.create_task(self._gpu.run()),
            *(asyncio.create_task(self._serve_server(s)) for s in self.board.servers),
        ]
        second = snapshot = float("-inf")
        try:
            while not self._tick():
                mono = self.clock.monotonic()
                if mono - second >= SECOND_S:
                    second = mono
                    self._second()
                if mono - snapshot >= SNAPSHOT_S:
                    snapshot = mono
                    self._write_snapshot("running")
                await asyncio.sleep(TICK_S)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            self.recorder.flush(self.clock.wall())
            await self._http.aclose()

    def say(self, severity: Severity, source: str, text: str) -> None:
        """Add to the run's history."""
        self.store.event(self.clock.wall(), severity, source, text)

    async def _serve_server(self, server: ManagedServer) -> None:
        while True:
            try:
                await server.step(reconcile.servers_wanted(self.board))
            except Exception as error:  # noqa: BLE001 - one server's trouble must not end the run
                self.say("error", f"server {server.section.name}", f"supervisor error: {error!r}")
                await asyncio.sleep(SECOND_S)
            await asyncio.sleep(SECOND_S if server.state in ("ready", "attached") else TICK_S)

    def _tick(self) -> bool:
        """One round; True when the run is down and the supervisor shall end."""
        board = self.board
        if not board.run.lock.exists():
            self._give_up()
            return True
        board.figures.poll()
        for note in board.figures.take_notes():
            self.say(severity_of(note.severity), note.phase, note.text)
        reconcile.check_workers(board)
        self.orders.carry_out_requested()
        reconcile.reconcile_phases(board)
        board.publish()
        self.orders.see_effects()
        if board.intent != "down" or not reconcile.all_stopped(board):
            return False
        self.orders.settle_down()
        self.say("info", "supervisor", "the run is down")
        self.status = self._make_status()
        self._write_snapshot("stopped")
        return True

    def _give_up(self) -> None:
        """The run directory is gone: nobody can look or steer any more, so nothing is left on."""
        print(f"{self.board.run.root} is gone: everything is stopped", file=sys.stderr, flush=True)
        for slot in self.board.slots.values():
            slot.abandon()
        for server in self.board.servers:
            server.abandon()

    def _second(self) -> None:
        """What is done once a second."""
        try:
            host = self._host.sample()
        except OSError as error:
            self.say("error", "supervisor", f"{self.board.run.root}: {error}")
        else:
            self._host_status = HostStatus(
                cpu=host.cpu,
                mem=host.mem,
                mem_used=host.mem_used,
                mem_total=host.mem_total,
                disk_free=host.disk_free,
                disk_full_at=host.disk_full_at,
                gpu_note=self._gpu.note,
            )
        self.status = self._make_status()
        self._record()

    def _make_status(self) -> Status:
        return self._maker.make(self._host_status, self._gpu.gpus())

    def _record(self) -> None:
        status = self.status
        live = [s for s in status.servers if s.tok_s is not None]
        values: dict[str, float | None] = {
            "tok_s": sum(s.tok_s or 0.0 for s in live) if live else None,
            "running": float(sum(s.running or 0 for s in live)) if live else None,
            "queued": float(sum(s.queued or 0 for s in live)) if live else None,
            "kv_usage": max((s.kv_usage or 0.0 for s in live), default=None),
            "cpu": status.host.cpu,
            "mem": status.host.mem,
        }
        for phase in status.phases:
            if phase.state == "running":
                values.update({f"{phase.name}.{k}": v for k, v in phase.figures.items()})
        for gpu in status.gpus:
            values[f"gpu{gpu.index}.util"] = gpu.util
        self.recorder.add(status.at, values)

    def _write_snapshot(self, state: str) -> None:
        """What is shown of the run while no supervisor is there."""
        supervisor = self.status.supervisor.model_copy(update={"state": state})
        status = self.status.model_copy(update={"supervisor": supervisor})
        try:
            atomic.write_json(self.board.run.root / "status.json", status.to_json())
        except OSError as error:
            self.say("warning", "supervisor", f"status.json cannot be written: {error}")
