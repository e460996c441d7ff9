"""The supervisor: gathers facts, carries out commands, reconciles workers and servers."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import httpx

from eagle_tui import __version__, eta, rules
from eagle_tui.clock import Clock
from eagle_tui.config import PHASES, ConfigError, RunConfig, load_config
from eagle_tui.history import Recorder
from eagle_tui.protocol import (
    CommandRequest,
    CommandStatus,
    HostStatus,
    PhaseStatus,
    Preview,
    RunStatus,
    Severity,
    Status,
    SupervisorStatus,
)
from eagle_tui.rundir import atomic, desired, manifest
from eagle_tui.rundir.desired import Desired
from eagle_tui.rundir.manifest import Manifest
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import commands
from eagle_tui.supervisor.figures import Figures
from eagle_tui.supervisor.phases import NEEDS_SERVER, Decision, Facts, decide
from eagle_tui.supervisor.servers import Context, ManagedServer
from eagle_tui.supervisor.status import GenerateView, generate_view
from eagle_tui.supervisor.store import Store, StoredCommand
from eagle_tui.supervisor.workers import Surroundings, WorkerSlot, severity_of
from eagle_tui.telemetry.gpu import GpuSampler
from eagle_tui.telemetry.host import HostSampler

TICK_S = 0.25
SECOND_S = 1.0
SNAPSHOT_S = 10.0
RECENT_COMMANDS = 20


class Supervisor:
    """One per run directory. Owns the state file; everything runs on one event loop."""

    def __init__(self, run: RunDir, config: RunConfig, store: Store, clock: Clock) -> None:
        self.run = run
        self.config = config
        self.store = store
        self.clock = clock
        self.recorder = Recorder(store)
        self.figures = Figures(run, clock)
        self._http = httpx.AsyncClient()
        self._gpu = GpuSampler(clock)
        self._host = HostSampler(run.root, clock)
        self._host_status = HostStatus()
        self.desired = store.desired()
        self._published: Desired | None = None
        self._intent: str = store.get("intent") or "up"
        self._down: str | None = None
        self._alerts_since: dict[str, float] = {}
        self._manifests: dict[str, tuple[float, Manifest | None, str]] = {}
        self._decisions: dict[str, Decision] = {p: Decision("pending") for p in PHASES}
        self._seq = 0
        surroundings = Surroundings(run, store, clock, self.figures, self.say)
        self.slots = {phase: WorkerSlot(phase, surroundings) for phase in PHASES}
        self._context = Context(run, store, clock, self._http, self.say)
        self.servers = [ManagedServer(config, s, self._context) for s in config.server]
        if store.get("started") is None:
            store.put("started", clock.wall())
        self._reconcile_phases(launch=False)
        self.status = self._make_status()

    # -- loop -------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until `down` is carried out or the task is cancelled. Workers and servers outlive it."""
        self.say("info", "supervisor", f"supervisor {__version__} started (pid {os.getpid()})")
        background = [
            asyncio.create_task(self._gpu.run()),
            *(asyncio.create_task(self._serve_server(server)) for server in self.servers),
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

    async def _serve_server(self, server: ManagedServer) -> None:
        while True:
            try:
                await server.step(self._server_wanted())
            except Exception as error:  # noqa: BLE001 - one server's trouble must not end the run
                self.say("error", f"server {server.section.name}", f"supervisor error: {error!r}")
            await asyncio.sleep(SECOND_S if server.state in ("ready", "attached") else TICK_S)

    def _tick(self) -> bool:
        """One round; True when the run is down and the supervisor shall end."""
        self.figures.poll()
        for note in self.figures.take_notes():
            self.say(severity_of(note.severity), note.phase, note.text)
        for slot in self.slots.values():
            if slot.check(self.config.supervisor) is not None:
                self._manifests.pop(slot.phase, None)
        for command in self.store.commands_in("requested"):
            self._carry_out(command)
        self._reconcile_phases(launch=self._intent == "up")
        self._publish()
        for command in self.store.commands_in("accepted"):
            self._see_effect(command)
        return self._finish_down()

    def _second(self) -> None:
        """What is done once a second."""
        try:
            host = self._host.sample()
            self._host_status = HostStatus(
                cpu=host.cpu,
                mem=host.mem,
                mem_used=host.mem_used,
                mem_total=host.mem_total,
                disk_free=host.disk_free,
                disk_full_at=host.disk_full_at,
                gpu_note=self._gpu.note,
            )
        except OSError as error:
            self.say("error", "supervisor", f"{self.run.root}: {error}")
        self.status = self._make_status()
        self._record()

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
        for gpu in status.gpus:
            values[f"gpu{gpu.index}.util"] = gpu.util
        self.recorder.add(status.at, values)

    def say(self, severity: Severity, source: str, text: str) -> None:
        """Add to the run's history."""
        self.store.event(self.clock.wall(), severity, source, text)

    # -- commands ---------------------------------------------------------------------------------

    def request(self, request: CommandRequest) -> CommandStatus:
        """Store an order. What is refused at once says so in the answer."""
        stored = self.store.request(
            CommandStatus(
                id=request.id,
                verb=request.verb,
                args=request.args,
                state="requested",
                at=self.clock.wall(),
                origin=request.origin,
            )
        )
        if stored.state == "requested":
            found = self.store.command(request.id)
            assert found is not None
            self._carry_out(found)
            found = self.store.command(request.id)
            assert found is not None
            stored = found.status
        return stored

    def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        """What an order would do."""
        return commands.preview(self._view(), verb, args)

    def _view(self) -> commands.View:
        flow = self.figures.workers["generate"].flow if "generate" in self.figures.workers else None
        paused = flow is not None and flow.mode == "paused" and self.slots["generate"].alive
        live = [s.tok_s for s in self.status.servers if s.tok_s is not None]
        return commands.View(
            config=self.config,
            desired=self.desired,
            phases={p: PhaseStatus(name=p, state=d.state) for p, d in self._decisions.items()},
            datasets=self.figures.datasets,
            paused_by_itself=paused and self.desired.pause == "no",
            tok_s=sum(live) if live else None,
        )

    def _carry_out(self, command: StoredCommand) -> None:
        status = command.status
        wall = self.clock.wall()
        try:
            if status.verb == "up":
                self._reload()
            change = commands.apply(self._view(), status.verb, status.args)
        except (commands.Refusal, ConfigError) as refusal:
            self.store.settle(status.id, "refused", str(refusal), wall)
            self.say("warning", "operator", f"{status.verb} refused: {refusal}")
            return
        self.store.accept(status.id, change.desired, wall)
        self.desired = change.desired
        for phase in change.again:
            self._remake(phase)
        for phase in change.forgive:
            self.slots[phase].forgive()
        if status.verb == "up":
            for server in self.servers:
                server.forgive()
            self._set_intent("up")
        if change.down:
            self._set_intent("down")
            self._down = status.id
        self.say("info", "operator", f"{status.verb}: {change.sentence}")
        self._publish()

    def _reload(self) -> None:
        """Read run.toml again. Workers that run keep what they began with."""
        config = load_config(self.run.config)
        if config == self.config:
            return
        if config.server != self.config.server:
            busy = [s.section.name for s in self.servers if not s.idle]
            if busy:
                raise commands.Refusal(
                    f"[[server]] changed while {', '.join(busy)} runs: `eagle-tui down` first"
                )
        self.config = config
        self._manifests.clear()
        self.say("info", "supervisor", "run.toml was read again")

    def _set_intent(self, intent: str) -> None:
        self._intent = intent
        self.store.put("intent", intent)

    def _remake(self, phase: str) -> None:
        """Take the phase's manifest away: it is to be done again."""
        path = self.run.manifest(phase)
        if path.exists():
            path.replace(path.with_name("manifest.before.json"))
        self._manifests.pop(phase, None)

    def _see_effect(self, command: StoredCommand) -> None:
        """Settle an accepted command whose effect is there."""
        status, seq = command.status, command.seq or 0
        generate = self.figures.workers.get("generate")
        alive = self.slots["generate"].alive
        applied = generate.flow.seq if generate and alive else None
        seen = applied is None or applied >= seq
        if status.verb == "pause":
            mode = generate.flow.mode if generate and alive else "paused"
            effective = seen and mode == "paused"
        elif status.verb == "advance":
            phase = next(iter(self.desired.finish[-1:]), "generate")
            effective = self._decisions[phase].state == "done"
        elif status.verb == "down":
            effective = False
        elif status.verb in ("rerun", "up"):
            effective = True
        else:
            effective = seen
        later = self.desired.pause == "no" and status.verb == "pause"
        if effective or later:
            reason = "overtaken by resume" if later and not effective else ""
            self.store.settle(status.id, "in_effect", reason, self.clock.wall())

    def _publish(self) -> None:
        """Write desired.json when it is not what it should be."""
        endpoints = tuple(e for s in self.servers if (e := s.endpoint()) is not None)
        wanted: Desired = self.desired.model_copy(update={"endpoints": endpoints})
        self.desired = wanted
        if wanted != self._published:
            desired.write(self.run.desired, wanted)
            self._published = wanted

    # -- phases -----------------------------------------------------------------------------------

    def _manifest(self, phase: str) -> tuple[Manifest | None, str]:
        """The phase's manifest and why it is stale; looked at again every two seconds."""
        mono = self.clock.monotonic()
        cached = self._manifests.get(phase)
        if cached is not None and mono - cached[0] < 2.0:
            return cached[1], cached[2]
        made = manifest.read(self.run, phase)
        stale = ""
        if made is not None and phase in self.config.run.phases:
            stale = manifest.stale_reason(made, manifest.inputs_of(self.config, self.run, phase))
        self._manifests[phase] = (mono, made, stale)
        return made, stale

    def _facts(self, phase: str) -> Facts:
        made, stale = self._manifest(phase)
        slot = self.slots[phase]
        view = self.figures.workers.get(phase)
        wanted = self.config.run.phases
        upstream = [p for p in PHASES[: PHASES.index(phase)] if p in wanted]
        idle = self.clock.monotonic() - view.last_at if view and view.last_at else 0.0
        return Facts(
            name=phase,
            wanted=phase in wanted,
            up=self._intent == "up",
            upstream=tuple((p, self._decisions[p].state) for p in upstream),
            made=made is not None,
            early=made.early if made else "",
            stale=stale,
            alive=slot.alive,
            failed=slot.failed,
            retry_in_s=slot.retry_in_s,
            retry_reason=slot.last_reason,
            pause=self.desired.pause,
            flow_mode=view.flow.mode if view and slot.alive else "",
            flow_reason=view.flow.reason if view and slot.alive else "",
            idle_s=idle,
            stall_s=self.config.supervisor.stall_s,
            finishing=phase in self.desired.finish,
        )

    def _reconcile_phases(self, *, launch: bool) -> None:
        for phase in PHASES:
            before = self._decisions[phase]
            decision = decide(self._facts(phase))
            self._decisions[phase] = decision
            slot = self.slots[phase]
            if decision.launch and launch and self._down is None:
                slot.launch()
            if decision.state != before.state and launch:
                self._seq += 1
            if self._intent == "down":
                slot.stop(self.config.supervisor.stop_timeout_s)

    def _server_wanted(self) -> bool:
        """Servers run while a phase that needs one is on or next."""
        if self._intent != "up":
            return False
        for phase in self.config.run.phases:
            if phase not in NEEDS_SERVER:
                continue
            state = self._decisions[phase].state
            if state in ("running", "paused", "draining", "stalled"):
                return True
            if state == "pending":
                return True
        return False

    def _finish_down(self) -> bool:
        """True when everything has stopped after `down`."""
        if self._intent != "down":
            return False
        if any(s.alive for s in self.slots.values()) or not all(s.idle for s in self.servers):
            return False
        for command in self.store.commands_in("accepted"):
            self.store.settle(command.status.id, "in_effect", "", self.clock.wall())
        self.say("info", "supervisor", "the run is down")
        self.status = self._make_status()
        self._write_snapshot("stopped")
        return True

    # -- status -----------------------------------------------------------------------------------

    def _write_snapshot(self, state: str) -> None:
        """What is shown of the run while no supervisor is there."""
        status = self.status.model_copy(
            update={"supervisor": self.status.supervisor.model_copy(update={"state": state})}
        )
        try:
            atomic.write_json(self.run.root / "status.json", status.to_json())
        except OSError as error:
            self.say("warning", "supervisor", f"status.json cannot be written: {error}")

    def _make_status(self) -> Status:
        wall = self.clock.wall()
        servers = tuple(s.status() for s in self.servers)
        live = [s.tok_s for s in servers if s.tok_s is not None]
        view = generate_view(
            self.config,
            self.desired,
            self.figures,
            self._decisions["generate"].state,
            sum(live) if live else None,
        )
        started = self.store.get("started")
        status = Status(
            at=wall,
            seq=self._seq,
            run=RunStatus(
                name=self.config.run.name,
                dir=str(self.run.root),
                target=self.config.target.model,
                started=started,
                elapsed_s=max(0.0, wall - started) if started else None,
                eta_s=self._run_eta(view),
            ),
            supervisor=SupervisorStatus(pid=os.getpid(), version=__version__),
            phases=tuple(self._phase_status(p, view) for p in PHASES),
            datasets=view.datasets,
            servers=servers,
            gpus=self._gpu.gpus(),
            host=self._host_status,
            commands=tuple(self.store.recent_commands(RECENT_COMMANDS)),
        )
        found = rules.alerts(status, self._alerts_since, self.config.target.reasoning != "none")
        return status.model_copy(update={"alerts": found})

    def _run_eta(self, view: GenerateView) -> eta.Range | None:
        state = self._decisions["generate"].state
        return view.eta_s if state in ("running", "stalled", "draining") else None

    def _phase_status(self, phase: str, view: GenerateView) -> PhaseStatus:
        decision, slot = self._decisions[phase], self.slots[phase]
        worker = self.figures.workers.get(phase)
        done = worker.done if worker else None
        total = worker.total if worker else None
        unit = worker.unit if worker else ""
        left: eta.Range | None = None
        if phase == "generate":
            done, total, unit = (view.done, view.total, "responses") if worker else (None, None, "")
            left = self._run_eta(view)
        elif worker and slot.alive and done is not None and total is not None:
            left = eta.progress_left(done, total, worker.pace.rate())
        return PhaseStatus(
            name=phase,
            state=decision.state,
            reason=decision.reason,
            attempt=slot.number,
            done=done,
            total=total,
            unit=unit,
            elapsed_s=slot.elapsed_s(),
            eta_s=left,
        )
