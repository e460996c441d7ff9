"""The supervisor's loop: look, carry out, reconcile, publish, record."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from collections import deque

import httpx

from eagle_tui import __version__, series, troubles
from eagle_tui.clock import Clock
from eagle_tui.config import RunConfig
from eagle_tui.history import Recorder
from eagle_tui.notifier import Notifier
from eagle_tui.protocol import History, HostStatus, Severity, Status
from eagle_tui.rundir import atomic
from eagle_tui.rundir.identity import identity
from eagle_tui.rundir.paths import RunDir
from eagle_tui.snapshots import Snapshots
from eagle_tui.supervisor import reconcile
from eagle_tui.supervisor.archive import Archive
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.estimates import Estimates
from eagle_tui.supervisor.gpu_owners import Owners
from eagle_tui.supervisor.moments import LONGEST
from eagle_tui.supervisor.orders import Orders
from eagle_tui.supervisor.server.context import Context
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.status import StatusMaker
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.measure import Measures
from eagle_tui.supervisor.workers import severity_of
from eagle_tui.telemetry.gpu import GpuSampler
from eagle_tui.telemetry.host import HostSampler

TICK_S = 0.25
CALM_TICK_S = 0.5
LIVELY_S = 10.0
"""For so long after something happened there is a round every TICK_S, later every CALM_TICK_S: each
takes about a millisecond."""
SECOND_S = 1.0
SNAPSHOT_S = 10.0
END_S = 5.0
GONE_S = 5.0
"""A run directory that is away for so long is gone."""
UNSAID = 500
"""Events that wait at most while the state file cannot be written."""


class Supervisor:
    """One per run directory. Owns the state file; everything runs on one event loop."""

    def __init__(self, run: RunDir, config: RunConfig, store: Store, clock: Clock) -> None:
        self.clock = clock
        self.store = store
        self._woken = asyncio.Event()
        self._lively_at = clock.monotonic()
        self._unsaid: deque[tuple[float, Severity, str, str]] = deque(maxlen=UNSAID)
        self._second_at = self._snapshot_at = float("-inf")
        self._root = identity(run.root)
        self._gone_since: float | None = None
        self._down = False
        self.recorder = Recorder(store)
        self.archive = Archive(run, store)
        self._snapshots, self._estimates = Snapshots(store), Estimates(store)
        self._http = httpx.AsyncClient(trust_env=False)
        self._gpu = GpuSampler(clock)
        self._owners = Owners(
            lambda: (*store.open_attempts("server"), *store.open_attempts("phase"))
        )
        self._host = HostSampler(run.root, clock)
        self._host_status = HostStatus()
        context = Context(run, store, clock, self._http, self.say, self._gpu.gpus)
        known_until, span = store.last_event_at(), store.snapshot_span()
        self.board = Board(run, config, store, clock, context)
        # The logs were read from their beginning; what was told before is not told again.
        self.board.figures.drop_notes(known_until)
        if reconcile.all_stopped(self.board):
            views = self.board.figures.workers.values()
            seen = [known_until, *(span or ()), *(v.last_wall for v in views if v.last_wall)]
            self.board.uptime.woke(max(seen), clock.wall())
        self._measures = Measures(
            store, clock, self._series, config.supervisor.effect_window_s, self.say
        )
        self.orders = Orders(self.board)
        self._maker = StatusMaker(self.board)
        self._notifier = Notifier(run, lambda: self.board.config.notify, clock, self.say)
        reconcile.decide_phases(self.board)
        self.status: Status = self._make_status()

    async def serve(self) -> None:
        """Until `down` is carried out or the task is cancelled. Workers and servers outlive it."""
        self.say("info", "supervisor", f"supervisor {__version__} started (pid {os.getpid()})")
        background = [
            asyncio.create_task(self._gpu.run()),
            asyncio.create_task(self._notifier.run()),
            *(asyncio.create_task(self._serve_server(s)) for s in self.board.servers),
        ]
        try:
            ended = False
            while not ended:
                ended = self._round()
                await self._rest(0.0 if ended else TICK_S)
        finally:
            for task in background:
                task.cancel()
            # A driver that hangs must not keep us from ending.
            await asyncio.wait(background, timeout=END_S)
            await self._notifier.finish()
            with contextlib.suppress(sqlite3.Error):
                self.recorder.flush(self.clock.wall())
            await self._http.aclose()
            if self._down:
                # Last of all: from now on nobody waits for us, and `up` starts another supervisor.
                with contextlib.suppress(OSError, sqlite3.Error):
                    self.status = self._make_status()
                stopped = self.status.supervisor.model_copy(update={"state": "stopped"})
                self.status = self.status.model_copy(update={"supervisor": stopped})
                with contextlib.suppress(sqlite3.Error):
                    self._snapshots.offer(self.status)
                self._write_snapshot("stopped")

    def wake(self) -> None:
        """Somebody ordered something: the next round comes now."""
        self._lively_at = self.clock.monotonic()
        self._woken.set()

    async def _rest(self, seconds: float) -> None:
        if seconds and self.clock.monotonic() - self._lively_at >= LIVELY_S:
            seconds = CALM_TICK_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    def _round(self) -> bool:
        """One round, whatever happens: a disk that is full or ill is told, and tried again; True
        when the supervisor shall end."""
        mono = self.clock.monotonic()
        try:
            if self._tick():
                return True
            if self._gone_since is not None:
                return False  # nothing is made anew where it was
            if mono - self._second_at >= SECOND_S:
                self._second_at = mono
                self._second()
            if mono - self._snapshot_at >= SNAPSHOT_S:
                self._snapshot_at = mono
                self._write_snapshot("running")
        except (OSError, sqlite3.Error) as error:
            trouble = troubles.of(error)
            if trouble != self._maker.trouble:
                self.say("error", "supervisor", f"cannot keep the run's state: {trouble.sentence}")
            self._maker.trouble = trouble
            # The screen is to see it even when nothing can be written; what cannot even be read
            # is shown as it was.
            with contextlib.suppress(OSError, sqlite3.Error):
                self.status = self._make_status()
        else:
            self._maker.trouble = None
        return False

    def say(self, severity: Severity, source: str, text: str) -> None:
        """Add to the run's history. What cannot be stored now is stored later."""
        self._lively_at = self.clock.monotonic()
        self._unsaid.append((self.clock.wall(), severity, source, text))
        try:
            while self._unsaid:
                self.store.event(*self._unsaid[0])
                self._unsaid.popleft()
        except sqlite3.Error as error:
            with contextlib.suppress(OSError):
                print(f"{source}: {text} ({error})", file=sys.stderr, flush=True)

    async def _serve_server(self, server: ManagedServer) -> None:
        while True:
            try:
                await server.step(self.board.wish(server))
            except Exception as error:  # noqa: BLE001 - one server's trouble must not end the run
                self.say("error", f"server {server.section.name}", f"supervisor error: {error!r}")
                await asyncio.sleep(SECOND_S)
            await asyncio.sleep(SECOND_S if server.state in ("ready", "attached") else TICK_S)

    def _tick(self) -> bool:
        """One round; True when the run is down and the supervisor shall end."""
        board = self.board
        if self._is_gone():
            self._give_up()
            return True
        if self._gone_since is not None:
            return False
        board.figures.poll()
        for note in board.figures.take_notes():
            self.say(severity_of(note.severity), note.phase, note.text)
        reconcile.check_workers(board)
        self.orders.carry_out_todo()
        self.orders.carry_out_requested()
        reconcile.reconcile_phases(board)
        board.retunes.tick()
        board.publish()
        self.orders.see_effects()
        if board.intent != "down" or not reconcile.all_stopped(board):
            return False
        self.orders.settle_down()
        self.say("info", "supervisor", "the run is down")
        self._down = True
        return True

    def _is_gone(self) -> bool:
        """Whether the run directory was removed or moved away, and stays away."""
        mono = self.clock.monotonic()
        if identity(self.board.run.root) == self._root:
            self._gone_since = None
        elif self._gone_since is None:
            self._gone_since = mono
        return self._gone_since is not None and mono - self._gone_since >= GONE_S

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
        self.recorder.add(self.status.at, series.values(self.status))
        ordered = self.board.desired.pause != "no"
        for notice in self._notifier.look(self.status, paused_by_order=ordered):
            if notice.kind == "paused":
                self.store.mark(self.status.at, "pause", notice.text[:LONGEST])
        self._snapshots.offer(self.status)
        self._estimates.look(self.status)
        self._measures.look(self.status)

    def _series(self, name: str, since: float, until: float, step_s: float) -> History:
        return self.recorder.query(name, since, step_s, self.clock.wall(), until)

    def _make_status(self) -> Status:
        return self._maker.make(self._host_status, self._owners.told(self._gpu.gpus()))

    def _write_snapshot(self, state: str) -> None:
        """What is shown of the run while no supervisor is there."""
        supervisor = self.status.supervisor.model_copy(update={"state": state})
        status = self.status.model_copy(update={"supervisor": supervisor})
        try:
            atomic.write_json(self.board.run.root / "status.json", status.to_json())
        except OSError as error:
            self.say("warning", "supervisor", f"status.json cannot be written: {error}")
