"""One `[[server]]`: launched, watched, restarted and stopped by us, or attached to."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.ports import free_port, port_taken
from eagle_tui.protocol import ServerState, ServerStatus, Severity
from eagle_tui.rundir import keys
from eagle_tui.rundir.desired import Endpoint
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.launch import Exit, Handle
from eagle_tui.supervisor.phases import Deaths
from eagle_tui.supervisor.server import launching, lost, memory, resolved
from eagle_tui.supervisor.server.closing import Closing
from eagle_tui.supervisor.server.context import Context, Plan, Wish
from eagle_tui.supervisor.server.restart import verdict
from eagle_tui.supervisor.server.start import Start, retuned
from eagle_tui.supervisor.server.watching import Watch
from eagle_tui.supervisor.store import Attempt
from eagle_tui.telemetry.diagnosis import Diagnosis
from eagle_tui.text import redact

UNREADY_AFTER = 3
"""Failed looks in a row after which a ready server is called unready."""
PORT_AGAIN_S = 5.0
LOOK_S = 1.0
"""Between two looks at a server that drains."""
UNREADY_STOP_S = 5.0
"""What a server that answers nobody gets to stop by itself: there is nothing for it to finish."""


class ManagedServer:
    """`step` is called about twice a second. It never blocks."""

    def __init__(self, config: RunConfig, section: ServerSection, context: Context) -> None:
        self.section = section
        self._config = config
        self._c = context
        self.state: ServerState = "stopped"
        self.reason = ""
        self.remedy = ""
        self.url: str | None = section.url
        self.settings: Mapping[str, str] = {}
        self.footprint: resolved.Footprint | None = None
        """What is in force by the server's own account, by name of the flag."""
        self.plan = Plan()
        """With what it was last launched."""
        self._handle: Handle | None = None
        self._watch: Watch | None = None
        self._start: Start | None = None
        self._closing: Closing | None = None
        self._crashed = False
        self._number = 0
        self._deaths = Deaths()
        self._retry_at = 0.0
        self._misses = 0
        self._was_ready = False
        self._warned = False
        self._asked = False
        self._look_at = float("-inf")
        if section.url:
            self._watch = Watch(section, context, section.url, None)
        else:
            self._adopt()

    # -- what others see --------------------------------------------------------------------------

    def endpoint(self) -> Endpoint | None:
        """Where requests can go now; None when they cannot."""
        if self.state not in ("ready", "attached") or self.url is None:
            return None
        return Endpoint(
            name=self.section.name,
            url=self.url,
            api_key_env=self.section.api_key_env,
            admin_api_key_env=self.section.admin_api_key_env,
        )

    @property
    def idle(self) -> bool:
        """No process of ours is left."""
        return self._handle is None

    @property
    def holding(self) -> bool:
        """It may still have requests of ours in flight."""
        if self._closing is not None:
            return self._closing.stage == "hold"
        return self._handle is not None

    def forgive(self) -> None:
        """Forget that it failed; it may be launched again."""
        self._deaths = Deaths()
        self._retry_at = 0.0
        if self.state == "failed":
            self.state, self.reason, self.remedy = "stopped", "", ""

    def abandon(self) -> None:
        """Kill a server of ours at once; its run directory is gone."""
        if self._handle is not None:
            self._handle.kill_all()

    def status(self) -> ServerStatus:
        """How it is, with its figures."""
        status = ServerStatus(
            name=self.section.name,
            url=self.url,
            state=self.state,
            reason=self.reason,
            remedy=self.remedy,
            pid=self._handle.process.pid if self._handle else None,
        )
        if self._watch is None or self.state in ("stopped", "failed"):
            return status
        if self.state != "starting":
            return self._watch.fill(status)
        assert self._start is not None
        return status.model_copy(update=self._start.figures(self._watch.stage, self._mono()))

    # -- life -------------------------------------------------------------------------------------

    async def step(self, wish: Wish) -> None:
        """Move one step towards what is wanted."""
        if self.section.url:
            await self._look("attached", wish)
        elif self._closing is not None:
            if wish.leave == "drain":
                await self._see_out(self._closing, wish)
            self._close(self._closing, wish)
        elif self._handle is None:
            self._rest(wish)
        elif (ended := self._handle.poll()) is not None:
            self._crash(ended.words(), ended)
        elif not wish.run:
            self._begin_stop()
        elif self._watch is not None and self._watch.dying():
            # The parent may sit for a minute over dumps, with the port closed and memory held.
            self._handle.kill_all()
            self._crash("its processes died")
        elif self.state == "starting":
            await self._starting()
        else:
            await self._look("ready", wish)

    def _mono(self) -> float:
        return self._c.clock.monotonic()

    def _wall(self) -> float:
        return self._c.clock.wall()

    def _say(self, severity: Severity, text: str) -> None:
        self._c.say(severity, f"server {self.section.name}", text)

    def _log_path(self) -> Path:
        return launching.log_path(self._c, self.section, self._number)

    def _adopt(self) -> None:
        """Take over what a supervisor before us launched, if it still runs."""
        for attempt in self._c.store.open_attempts("server"):
            if attempt.name != self.section.name:
                continue
            self._number, self.url = attempt.number, attempt.url
            assert attempt.url is not None
            self._watch = Watch(self.section, self._c, attempt.url, self._log_path())
            handle = launch.adopt(attempt.token, attempt.process)
            if handle is None:
                left = lost.settle(self._c.store, attempt, self._watch.diagnose(""), self._wall())
                self._watch = None
                if left:
                    self._say("warning", left)
            else:
                self._take_over(attempt, handle)

    def _take_over(self, attempt: Attempt, handle: Handle) -> None:
        store = self._c.store
        self._handle = handle
        self._was_ready = attempt.ready_at is not None
        settings, retune = store.servers.settings_of(attempt.token)
        trial = retune is not None and not self._was_ready
        self.plan = Plan(settings, retune, trial)
        store.launched(attempt.token, handle.process)
        # One that was ready goes on taking requests while we look at it again.
        self.state = "ready" if self._was_ready else "starting"
        since = self._mono() - max(0.0, self._wall() - attempt.launched_at)
        self._start = Start(since, store.servers.last_start_s(self.section.name, ""))
        self._say("info", f"adopted (pid {handle.process.pid})")

    # -- launch -----------------------------------------------------------------------------------

    def _rest(self, wish: Wish) -> None:
        """No process is there: launch one if it is time."""
        if not wish.run or self.state == "failed" or self._mono() < self._retry_at:
            return
        if wish.plan.trial and self._tries(wish.plan) >= wish.plan.number:
            return
        found = launching.obstacle(self._config, self.section, self._c.run.root, wish.plan)
        if found is not None:
            self.reason, self.remedy = found.reason, found.remedy
            self._retry_at = self._mono() + PORT_AGAIN_S
            if found.permanent:
                self.state = "failed"
                self._say("error", self.reason)
            return
        self._launch(wish.plan, self.section.port or free_port(self.section.host))

    def _tries(self, plan: Plan) -> int:
        """Launches that were made for a trial."""
        assert plan.retune is not None
        return len(self._c.store.servers.tries(plan.retune, plan.settings))

    def _launch(self, plan: Plan, port: int) -> None:
        self.plan = plan
        self.settings, self._was_ready, self._misses = {}, False, 0
        self._asked = self._warned = False
        made = launching.begin(self._config, self.section, self._c, plan, port)
        self._number, self._start = made.number, made.start
        if made.handle is None:
            self._died(made.failure, None)
            return
        self._handle, self.url = made.handle, made.url
        self._watch = Watch(self.section, self._c, made.url, self._log_path())
        self.state, self.reason, self.remedy = "starting", "", ""
        words = f"starting (attempt {self._number}, {made.url}{retuned(plan.settings)})"
        self._say("info", words)

    async def _starting(self) -> None:
        assert self._watch and self._handle and self._start
        why_not = await self._watch.healthy()
        waited = self._mono() - self._start.since
        if not why_not:
            await self._became_ready(self._watch, self._handle, waited)
        elif waited > self.section.start_timeout_s:
            self._handle.kill_all()
            self._crash(f"not ready after {waited:.0f} s: {why_not}")
        else:
            stage = self._watch.stage
            words = stage.sentence if stage else "launched, and has said nothing yet"
            self.reason = f"{words}; {waited:.0f} s so far"

    async def _became_ready(self, watch: Watch, handle: Handle, waited: float) -> None:
        keys.take_back(self._c.run.root, self.section)
        size = await self._ask(watch)
        watch.begin()
        self._c.store.ready(handle.token, self._wall())
        self.state, self.reason, self.remedy, self._misses = "ready", "", "", 0
        self._was_ready = True
        self._say("info", f"ready after {waited:.0f} s{size}")

    async def _ask(self, watch: Watch) -> str:
        """Learn with what it came up; gives the size of its pool, as the end of a sentence."""
        found = await watch.resolved()
        self._asked, self.settings, self.footprint = True, found.flags, found.footprint
        if found.pool is None:
            return ""
        if self._handle is not None:
            self._c.store.servers.pool(self._handle.token, found.pool)
        return f", KV pool of {found.pool:,} tokens"

    # -- watch ------------------------------------------------------------------------------------

    async def _look(self, good: ServerState, wish: Wish) -> None:
        assert self._watch is not None
        why_not = await self._watch.look(wish.in_flight)
        still = self._watch.still_s()
        if still >= self.section.hang_s and not (self.section.url and why_not):
            await self._hangs(self._watch, still, why_not)
            return
        self._warned = False
        if not why_not:
            if self.state != good:
                self._say("info", "answers")
            self.state, self.reason, self._misses = good, "", 0
            if not self._asked:
                await self._ask(self._watch)
            return
        self._misses += 1
        if self._misses >= UNREADY_AFTER or self.state not in ("ready", "attached"):
            if self.state != "unready":
                self._say("warning", f"does not answer: {why_not}")
            self.state, self.reason = "unready", why_not

    async def _hangs(self, watch: Watch, still: float, why_not: str) -> None:
        """It hangs: save evidence once, then end it, or warn."""
        what = f"does not answer ({why_not})" if why_not else "has requests and makes no tokens"
        self.state, self.reason = "unready", f"hangs: it {what} for {still:.0f} s"
        if self._warned:
            return
        self._warned = True
        reason = self.reason
        if self._handle is not None:
            headline = f"server {self.section.name}, attempt {self._number}: {reason}"
            reason += await watch.save_evidence(headline, self._handle)
        self._c.store.mark(self._wall(), "hang", f"{self.section.name} hangs")
        if self._handle is None or self.section.on_hang == "warn":
            self._say("error", reason)
            return
        self._handle.kill_all()
        self._crash(reason, outcome="hung")

    # -- end --------------------------------------------------------------------------------------

    def _begin_stop(self) -> None:
        able, stop_s = self.state == "ready", self.section.stop_timeout_s
        self._closing = self._new_closing(None, stop_s if able else min(UNREADY_STOP_S, stop_s))
        self.state, self.reason, self.remedy = "stopping", self._closing.words, ""
        self._say("info", "stopping")

    def _new_closing(self, ended: Exit | None, stop_s: float = 0.0) -> Closing:
        assert self._handle is not None
        host, port = self.section.host, int((self.url or "").rpartition(":")[2] or 0)
        return Closing(
            self._handle,
            self._c.clock,
            port_taken=lambda: port_taken(host, port),
            memory=lambda: memory.in_use(self._c.gpus(), self.section.gpus),
            memory_before=self._c.store.servers.gpu_before(self._handle.token),
            hold_s=self.section.hold_timeout_s,
            stop_s=stop_s,
            ended=ended,
        )

    async def _see_out(self, closing: Closing, wish: Wish) -> None:
        """Look on while its last requests finish; one that hangs over them is not waited for."""
        if closing.stage != "hold" or self._watch is None or self._mono() < self._look_at:
            return
        self._look_at = self._mono() + LOOK_S
        await self._watch.look(wish.in_flight)
        if (still := self._watch.still_s()) >= self.section.hang_s:
            closing.kill(f"made no tokens for {still:.0f} s while it drained, and was killed")

    def _close(self, closing: Closing, wish: Wish) -> None:
        """Go on with what is being ended."""
        closing.step(wish.held, wish.leave, wish.in_flight)
        if closing.stage != "done":
            self.reason = self.reason if self._crashed else closing.words
            return
        assert self._handle is not None
        for note in closing.notes:
            self._say("warning", note)
        if not self._crashed:
            ended = closing.ended or Exit(None, None)
            # Newer servers end by the very signal that they were asked with.
            words = "ended by SIGINT" if ended.signal == signal.SIGINT else ended.words()
            self._record("stopped", "; ".join((words, *closing.notes)), ended)
            self.state, self.reason = "stopped", ""
            self._say("info", f"stopped ({words})")
        self._handle = self._watch = self._closing = None
        self._crashed = False

    def _record(self, outcome: str, reason: str, ended: Exit) -> None:
        assert self._handle is not None
        keys.take_back(self._c.run.root, self.section)
        self._c.store.ended(
            self._handle.token,
            self._wall(),
            outcome=outcome,
            reason=reason,
            code=ended.code,
            signal=ended.signal,
        )

    def _crash(self, words: str, ended: Exit | None = None, outcome: str = "failed") -> None:
        """It ended, or was killed, without being told to stop: say why, then clean up."""
        assert self._handle and self._watch
        found = None if outcome == "hung" else self._watch.diagnose(words)
        lines = launch.last_lines(self._log_path(), 1) if ended else []
        reason = found.sentence if found else words
        if found is None and lines:
            reason = f"{words}; last line: {redact(lines[0])[:200]}"
        ended = ended or self._handle.poll() or Exit(None, None)
        self._record(outcome, reason, ended)
        if found:
            self._c.store.servers.diagnosed(self._handle.token, found.rule, found.remedy)
        if self._was_ready and outcome != "hung":
            self._c.store.mark(self._wall(), "crash", f"{self.section.name}: {reason}"[:200])
        self._closing, self._crashed = self._new_closing(ended), True
        self._died(reason, found)
        self._close(self._closing, Wish(run=False))

    def _died(self, reason: str, found: Diagnosis | None) -> None:
        """It is gone: when to try again, if at all."""
        mono = self._mono()
        said = verdict(
            self._deaths,
            reason,
            found,
            self._config.supervisor,
            now=mono,
            started=self._start.since if self._start else mono,
            was_ready=self._was_ready,
            trial=self.plan.trial,
        )
        self._deaths, self._retry_at = said.deaths, mono + (said.wait_s or 0.0)
        self.state, self.reason = "failed" if said.failed else "stopped", said.sentence
        self.remedy = found.remedy if found else ""
        self._say("error", said.sentence)
