"""Everything the supervisor knows now, in one place: the parts of the supervisor work on it."""

from __future__ import annotations

from typing import Literal

from eagle_tui import troubles
from eagle_tui.clock import Clock
from eagle_tui.config import PHASES, RunConfig
from eagle_tui.protocol import ServerStatus
from eagle_tui.rundir import desired, manifest
from eagle_tui.rundir.desired import Desired
from eagle_tui.rundir.manifest import Manifest
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.figures import Figures, WorkerView
from eagle_tui.supervisor.phases import NEEDS_SERVER, Decision
from eagle_tui.supervisor.server.context import Context, Wish
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.retunes import Retunes
from eagle_tui.supervisor.tuning.run import RetuneRun
from eagle_tui.supervisor.uptime import Uptime
from eagle_tui.supervisor.workers import Surroundings, WorkerSlot

MANIFEST_LOOK_S = 2.0
"""Seconds between two looks at a manifest and at what it was made from."""

UNREADABLE = Manifest(phase="", made_at=0.0, attempt=0, inputs={})
"""Stands for a manifest that is there and broken: the phase is stale, not pending."""

Intent = Literal["up", "down"]


class Board:
    """The state that the supervisor's parts share. Adopts what runs when it is made."""

    def __init__(
        self, run: RunDir, config: RunConfig, store: Store, clock: Clock, context: Context
    ) -> None:
        self.run = run
        self.config = config
        self.store = store
        self.clock = clock
        self.say = context.say
        self.figures = Figures(run, clock)
        self.desired: Desired = store.desired()
        if store.get("desired") is None:
            # The state file was lost: what the operator ordered stands in the other one, too.
            try:
                if run.desired.exists():
                    self.desired = desired.read(run.desired, config)
            except (OSError, ValueError):
                said = "desired.json is not readable: what was ordered before is lost"
                context.say("error", "supervisor", said)
        self.decisions: dict[str, Decision] = {p: Decision("pending") for p in PHASES}
        surroundings = Surroundings(run, store, clock, self.figures, context.say)
        self.slots = {phase: WorkerSlot(phase, surroundings) for phase in PHASES}
        self.servers = [ManagedServer(config, s, context) for s in config.server]
        by_name = {server.section.name: server for server in self.servers}
        self._retune_run = RetuneRun(self)
        self.retunes = Retunes(self._retune_run, store, clock, by_name, context.say)
        self._intent: Intent = store.get("intent") or "up"
        self._manifests: dict[str, tuple[float, Manifest | None, str]] = {}
        self._published: Desired | None = None
        self.uptime = Uptime(run, store, clock)

    @property
    def intent(self) -> Intent:
        """Whether the operator wants the run to go on."""
        return self._intent

    def set_intent(self, intent: Intent) -> None:
        """Keep what the operator wants of the run, over the supervisor's own death."""
        self._intent = intent
        self.store.put("intent", intent)

    def worker(self, phase: str) -> WorkerView | None:
        """What the event log of the phase's newest attempt says."""
        return self.figures.workers.get(phase)

    def servers_needed(self) -> bool:
        """Servers run while a phase that needs one is on or next; loading overlaps what is before.
        One that took an hour to load is not let go because a phase failed for the moment."""
        if self.intent != "up":
            return False
        active = ("pending", "running", "paused", "draining", "stalled", "failed", "blocked")
        needing = [p for p in self.config.run.phases if p in NEEDS_SERVER]
        return any(self.decisions[phase].state in active for phase in needing)

    def wish(self, server: ManagedServer) -> Wish:
        """What is wanted of a server now."""
        name = server.section.name
        told = self.figures.endpoints.get(name) if self.slots["generate"].alive else None
        run = self.servers_needed() or (self.intent == "up" and self.retunes.needs(name))
        return Wish(
            run=run and not self.retunes.wants_down(name),
            plan=self.retunes.plan(name),
            held=self._retune_run.held(name),
            in_flight=told.in_flight if told else 0,
            leave=self.retunes.leaving(name),
        )

    def server_status(self, server: ManagedServer) -> ServerStatus:
        """How a server is, with the change of its settings that is under way."""
        retune = self.retunes.status(server.section.name)
        return server.status().model_copy(update={"retune": retune})

    def server_tok_s(self) -> float | None:
        """Tokens a second of all servers together; None when no server reports."""
        live = [t for s in self.servers if (t := s.status().tok_s) is not None]
        return sum(live) if live else None

    def publish(self) -> None:
        """Write desired.json when it is not what it should be, or somebody removed it: a worker
        that starts without it knows of no server that we run."""
        endpoints = tuple(e for s in self.servers if (e := s.endpoint()) is not None)
        names = [s.section.name for s in self.servers if s.state == "stopping"]
        names += [n for s in self.servers if self.retunes.wants_down(n := s.section.name)]
        leave = {name: self.retunes.leaving(name) for name in names}
        changes = {
            "endpoints": endpoints,
            "held": tuple(n for n, how in leave.items() if how == "hold"),
            "dropped": tuple(n for n, how in leave.items() if how == "abort"),
        }
        self.desired = self.desired.model_copy(update=changes)
        if self.desired != self._published or not self.run.desired.exists():
            desired.write(self.run.desired, self.desired)
            self._published = self.desired

    def manifest(self, phase: str) -> tuple[Manifest | None, str]:
        """The phase's manifest and why it is stale; looked at again every two seconds."""
        mono = self.clock.monotonic()
        cached = self._manifests.get(phase)
        if cached is not None and mono - cached[0] < MANIFEST_LOOK_S:
            return cached[1], cached[2]
        stale = ""
        try:
            made = manifest.read(self.run, phase)
        except (OSError, ValueError) as error:
            why = troubles.of(error).sentence
            made, stale = UNREADABLE, f"its manifest cannot be read ({why})"
        if made is not None and not stale and phase in self.config.run.phases:
            stale = manifest.stale_reason(made, manifest.inputs_of(self.config, self.run, phase))
        self._manifests[phase] = (mono, made, stale)
        return made, stale

    def forget_manifest(self, phase: str) -> None:
        """Look at the manifest anew next time: its worker ended."""
        self._manifests.pop(phase, None)

    def remake(self, phase: str) -> None:
        """Take the phase's manifest away: the phase is to be done again."""
        path = self.run.manifest(phase)
        if path.exists():
            path.replace(path.with_name("manifest.before.json"))
        self.forget_manifest(phase)

    def set_config(self, config: RunConfig) -> None:
        """From now on go by this configuration; workers that run keep what they began with."""
        self.config = config
        self._manifests.clear()
