"""One `[[server]]`: launched, watched, restarted and stopped by us, or attached to."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from eagle_tui import proc
from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.config.target import NoSuchModel
from eagle_tui.protocol import ServerState, ServerStatus, Severity
from eagle_tui.rundir.desired import Endpoint
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.launch import Exit, Handle
from eagle_tui.supervisor.phases import Deaths
from eagle_tui.supervisor.server import evidence, memory, resolved
from eagle_tui.supervisor.server.closing import Closing
from eagle_tui.supervisor.server.context import Context, Plan, Wish
from eagle_tui.supervisor.server.hang import HangWatch
from eagle_tui.supervisor.server.ports import free_port, port_taken
from eagle_tui.supervisor.server.start import Start
from eagle_tui.telemetry.diagnosis import Diagnosis, diagnose
from eagle_tui.telemetry.server_log import ServerLog
from eagle_tui.telemetry.sglang import ServerPoller

UNREADY_AFTER = 3
"""Failed looks in a row after which a ready server is called unready."""
STALE_S = 10.0
"""Figures older than this are not shown as if they were true now."""
PORT_AGAIN_S = 5.0
DYING_S = 1.0
UNREADY_STOP_S = 5.0
"""What a server that answers nobody gets to stop by itself: there is nothing for it to finish."""


class ManagedServer:
    """`step` is called about twice a second. It never blocks, but for evidence of a hang."""

    def __init__(self, config: RunConfig, section: ServerSection, context: Context) -> None:
        self.section = section
        self._config = config
        self._c = context
        self.state: ServerState = "stopped"
        self.reason = ""
        self.remedy = ""
        self.url: str | None = section.url
        self.settings: dict[str, str] = {}
        """What is in force by the server's own account, by name of the flag."""
        self.plan = Plan()
        """With what it was last launched."""
        self._handle: Handle | None = None
        self._closing: Closing | None = None
        self._crash: str | None = None
        self._tried: Plan | None = None
        self._number = 0
        self._start: Start | None = None
        self._poller: ServerPoller | None = None
        self._log: ServerLog | None = None
        self._hang = HangWatch(context.clock.monotonic())
        self._warned = False
        self._deaths = Deaths()
        self._retry_at = 0.0
        self._misses = 0
        self._was_ready = False
        self._dying_since: float | None = None
        if section.url:
            self._poller = self._new_poller(section.url)
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
        return self._handle is None and self._closing is None

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
        """Its figures; those that are too old to be true are null."""
        figures = self._poller.last if self._poller else None
        status = ServerStatus(
            name=self.section.name,
            url=self.url,
            state=self.state,
            reason=self.reason,
            remedy=self.remedy,
            pid=self._handle.process.pid if self._handle else None,
        )
        if self.state == "starting" and self._start is not None:
            return status.model_copy(update=self._start.figures(self._log, self._mono()))
        if figures is None or self.state in ("stopped", "failed"):
            return status
        age = self._mono() - figures.mono
        status = status.model_copy(update={"age_s": age, "kv_tokens": figures.kv_tokens})
        if age > STALE_S:
            return self._by_log(status)
        return status.model_copy(
            update={
                "tok_s": figures.tok_s,
                "running": figures.running,
                "queued": figures.queued,
                "kv_usage": figures.kv_usage,
                "cache_hit": figures.cache_hit,
                "accept_length": figures.accept_length,
                "retractions": figures.retractions,
                "reason": self.reason or figures.note,
            }
        )

    def _by_log(self, status: ServerStatus) -> ServerStatus:
        """With the load that its log tells, when that is newer than what HTTP told."""
        load = self._log.load if self._log else None
        if load is None or self._mono() - load.at_mono > STALE_S:
            return status
        return status.model_copy(
            update={
                "tok_s": load.tok_s,
                "running": load.running,
                "queued": load.queued,
                "kv_usage": load.kv_usage,
                "age_s": self._mono() - load.at_mono,
                "reason": "; ".join(filter(None, (self.reason, "figures are from its log"))),
            }
        )

    # -- life -------------------------------------------------------------------------------------

    async def step(self, wish: Wish) -> None:
        """Move one step towards what is wanted."""
        if self.section.url:
            await self._look("attached", wish)
        elif self._closing is not None:
            self._close(wish)
        elif self._handle is None:
            self._rest(wish)
        elif (ended := self._handle.poll()) is not None:
            self._crashed(ended.words(), ended)
        elif not wish.run:
            self._begin_stop()
        elif self._dying():
            assert self._log is not None
            # The parent may sit for a minute over dumps, with the port closed and memory held.
            self._handle.kill_all()
            self._crashed("its processes died")
        elif self.state == "starting":
            await self._starting()
        else:
            await self._look("ready", wish)

    def _mono(self) -> float:
        return self._c.clock.monotonic()

    def _wall(self) -> float:
        return self._c.clock.wall()

    def _key(self) -> str | None:
        name = self.section.api_key_env
        return os.environ.get(name) if name else None

    def _new_poller(self, url: str) -> ServerPoller:
        return ServerPoller(self._c.http, url, self._key(), self._c.clock)

    def _say(self, severity: Severity, text: str) -> None:
        self._c.say(severity, f"server {self.section.name}", text)

    def _log_path(self) -> Path:
        return self._c.run.log(f"server-{self.section.name}", self._number)

    def _adopt(self) -> None:
        """Take over what a supervisor before us launched, if it still runs."""
        store = self._c.store
        for attempt in store.open_attempts("server"):
            if attempt.name != self.section.name:
                continue
            handle = launch.adopt(attempt.token, attempt.process)
            if handle is None:
                self._lost(attempt.token, attempt.process, attempt.number)
                continue
            assert attempt.url is not None
            self._handle, self._number, self.url = handle, attempt.number, attempt.url
            settings, retune = store.servers.settings_of(attempt.token)
            self.plan = Plan(settings, retune)
            store.launched(attempt.token, handle.process)
            self._poller = self._new_poller(attempt.url)
            self._log = ServerLog(self._log_path(), self._c.clock)
            self._was_ready = attempt.ready_at is not None
            # One that was ready goes on taking requests while we look at it again.
            self.state = "ready" if self._was_ready else "starting"
            since = self._mono() - max(0.0, self._wall() - attempt.launched_at)
            self._start = Start(since, store.servers.last_start_s(self.section.name, ""))
            self._say("info", f"adopted (pid {handle.process.pid})")

    def _lost(self, token: str, process: proc.Process | None, number: int) -> None:
        """An attempt of a supervisor before us is over, and nobody saw how."""
        reason = "ended while no supervisor was there"
        self._number = number
        if found := self._diagnose("", ServerLog(self._log_path(), self._c.clock)):
            reason = f"{reason}: {found.sentence}"
            self._c.store.servers.diagnosed(token, found.rule, found.remedy)
        self._c.store.ended(token, self._wall(), outcome="lost", reason=reason)
        orphans = proc.family(token, process) if process else list(proc.with_token(token))
        if orphans:
            named = ", ".join(f"{proc.title(p)} (pid {p.pid})" for p in orphans)
            proc.kill(orphans)
            self._say("warning", f"processes that outlived it were killed: {named}")

    # -- launch -----------------------------------------------------------------------------------

    def _rest(self, wish: Wish) -> None:
        """No process is there: launch one if it is time."""
        if not wish.run or self.state == "failed" or self._mono() < self._retry_at:
            return
        if wish.plan.trial and self._tried == wish.plan:
            return
        self._launch(wish.plan)

    def _launch(self, plan: Plan) -> None:
        section, store = self.section, self._c.store
        port = section.port or free_port(section.host)
        if section.port and port_taken(section.host, port):
            # SGLang would load the model first, and then warm up whoever listens there.
            self._retry_at = self._mono() + PORT_AGAIN_S
            self.reason = f"port {port} is taken by another program; waiting for it"
            return
        self.plan, self._tried = plan, plan
        url = f"http://{section.host}:{port}"
        token = launch.new_token()
        self.settings, self._was_ready, self._misses = {}, False, 0
        argv: list[str] = []
        same, missing = "", ""
        try:
            argv, same = resolved.command(self._config, section, self._c.run.root, port, plan)
        except NoSuchModel as error:
            missing = str(error)
        self._start = Start(self._mono(), store.servers.last_start_s(section.name, same))
        before = memory.in_use(self._c.gpus(), section.gpus)
        store.servers.launching(token, section.name, plan.settings, same, plan.retune, before)
        self._number = store.begin("server", section.name, token, self._wall(), url)
        try:
            if missing:
                raise OSError(missing)
            self._handle = launch.spawn(
                argv,
                token=token,
                log=self._log_path(),
                cwd=self._c.run.root,
                env=resolved.environment(section),
            )
        except OSError as error:
            reason = f"cannot be started: {error}"
            store.ended(token, self._wall(), outcome="failed", reason=reason)
            self._died(reason, None)
            return
        store.launched(token, self._handle.process)
        self.url, self._poller = url, self._new_poller(url)
        self._log = ServerLog(self._log_path(), self._c.clock)
        self.state, self.reason, self.remedy = "starting", "", ""
        self._say("info", f"starting (attempt {self._number}, {url})")

    async def _starting(self) -> None:
        assert self._poller and self._handle and self._start and self._log
        self._log.poll()
        why_not = await self._poller.healthy()
        waited = self._mono() - self._start.since
        if not why_not:
            await self._became_ready(waited)
        elif waited > self.section.start_timeout_s:
            self._say("error", f"not ready after {waited:.0f} s: {why_not}")
            self._handle.kill_all()
            self._crashed(f"not ready after {waited:.0f} s: {why_not}")
        else:
            stage = self._log.stage.sentence if self._log.stage else why_not
            self.reason = f"{stage}; {waited:.0f} s so far"

    async def _became_ready(self, waited: float) -> None:
        assert self._poller and self._handle and self.url
        info = await resolved.read(self._c.http, self.url, self._key())
        self.settings = resolved.flags_of(info)
        pool = info.get("max_total_num_tokens")
        if isinstance(pool, int):
            self._c.store.servers.pool(self._handle.token, pool)
        self._c.store.ready(self._handle.token, self._wall())
        self.state, self.reason, self.remedy, self._misses = "ready", "", "", 0
        self._was_ready = True
        self._hang = HangWatch(self._mono())
        size = f", KV pool of {pool:,} tokens" if isinstance(pool, int) else ""
        self._say("info", f"ready after {waited:.0f} s{size}")

    # -- watch ------------------------------------------------------------------------------------

    async def _look(self, good: ServerState, wish: Wish) -> None:
        assert self._poller is not None
        if self._log is not None:
            self._log.poll()
        why_not = await self._poller.poll()
        self._see_work(why_not, wish)
        still = self._hang.still_s(self._mono())
        if still >= self.section.hang_s:
            await self._hangs(still, why_not)
            return
        if still < 1.0:
            self._warned = False
        if not why_not:
            if self.state != good:
                self._say("info", "answers")
            self.state, self.reason, self._misses = good, "", 0
            return
        self._misses += 1
        if self._misses >= UNREADY_AFTER or self.state not in ("ready", "attached"):
            if self.state != "unready":
                self._say("warning", f"does not answer: {why_not}")
            self.state, self.reason = "unready", why_not

    def _see_work(self, why_not: str, wish: Wish) -> None:
        """Tell the watch whether it has work and whether it moves."""
        assert self._poller is not None
        figures, mono = self._poller.last, self._mono()
        if why_not:
            # It has to answer us, if nobody else.
            if self.section.url is None:
                self._hang.see(None, mono)
            return
        assert figures is not None
        if (figures.running or 0) + (figures.queued or 0) + wish.in_flight:
            self._hang.see((figures.generated, figures.heartbeat), mono)
        else:
            self._hang.idle(mono)

    async def _hangs(self, still: float, why_not: str) -> None:
        what = f"does not answer ({why_not})" if why_not else "has requests and makes no tokens"
        reason = f"hangs: it {what} for {still:.0f} s"
        if self._handle is None or self.section.on_hang == "warn":
            self.state, self.reason = "unready", reason
            if not self._warned:
                self._warned = True
                saved = await self._evidence(reason) if self._handle else ""
                self._say("error", reason + saved)
            return
        saved = await self._evidence(reason)
        self._c.store.mark(self._wall(), "hang", f"{self.section.name} hangs")
        self._handle.kill_all()
        self._crashed(reason + saved, outcome="hung")

    async def _evidence(self, reason: str) -> str:
        """Save what is known of a server that hangs; gives where, as the end of a sentence."""
        assert self._handle and self.url
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._wall()))
        path = self._c.run.logs / f"hang-{self.section.name}-{self._number:04d}-{stamp}.txt"
        key = self._key()
        try:
            await evidence.collect(
                path,
                headline=f"server {self.section.name}, attempt {self._number}: {reason}",
                processes=await asyncio.to_thread(self._handle.family),
                program=(self.section.command or [""])[0],
                log=self._log_path(),
                url=self.url,
                headers={"Authorization": f"Bearer {key}"} if key else {},
                http=self._c.http,
            )
        except OSError as error:
            return f"; evidence could not be saved: {error}"
        return f"; evidence is in logs/{path.name}"

    # -- end --------------------------------------------------------------------------------------

    def _dying(self) -> bool:
        """Whether its log says that it is lost, though the parent still lives: a second later, so
        that the log says why, too."""
        if self._log is None:
            return False
        self._log.poll()
        if not self._log.dying:
            self._dying_since = None
            return False
        if self._dying_since is None:
            self._dying_since = self._mono()
        return self._mono() - self._dying_since >= DYING_S

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

    def _begin_stop(self) -> None:
        able = self.state == "ready"
        stop_s = self.section.stop_timeout_s
        self._closing = self._new_closing(None, stop_s if able else min(UNREADY_STOP_S, stop_s))
        self.state, self.remedy = "stopping", ""
        self.reason = self._closing.words
        self._say("info", "stopping")

    def _crashed(self, words: str, ended: Exit | None = None, outcome: str = "failed") -> None:
        """It ended, or was killed, without being told to stop: say why, then clean up."""
        assert self._handle is not None
        found = self._diagnose(words, self._log)
        reason = found.sentence if found else words
        if found is None and (lines := launch.last_lines(self._log_path(), 1)):
            reason = f"{words}; last line: {evidence.redact(lines[-1])[:200]}"
        code = ended or self._handle.poll() or Exit(None, None)
        store = self._c.store
        store.ended(
            self._handle.token,
            self._wall(),
            outcome=outcome,
            reason=reason,
            code=code.code,
            signal=code.signal,
        )
        if found:
            store.servers.diagnosed(self._handle.token, found.rule, found.remedy)
        if self._was_ready:
            store.mark(self._wall(), "crash", f"{self.section.name}: {reason}"[:200])
        self._closing = self._new_closing(code)
        self._closing.step(True)
        self._crash = reason
        self._died(reason, found)
        self._close(None)

    def _diagnose(self, words: str, log: ServerLog | None) -> Diagnosis | None:
        if log is None:
            return None
        log.poll()
        return diagnose(log.tail, words)

    def _close(self, wish: Wish | None) -> None:
        """Go on with what is being ended."""
        closing, handle = self._closing, self._handle
        assert closing is not None and handle is not None
        closing.step(wish is None or wish.held)
        stopping = self._crash is None
        if closing.stage != "done":
            if stopping:
                self.reason = closing.words
            return
        for note in closing.notes:
            self._say("warning", note)
        ended = closing.ended or Exit(None, None)
        if stopping:
            self._c.store.ended(
                handle.token,
                self._wall(),
                outcome="stopped",
                reason="; ".join((ended.words(), *closing.notes)),
                code=ended.code,
                signal=ended.signal,
            )
            self.state, self.reason = "stopped", ""
            self._say("info", f"stopped ({ended.words()})")
        self._handle = self._poller = self._log = self._closing = self._crash = None

    def _died(self, reason: str, found: Diagnosis | None) -> None:
        """It is gone: when to try again, if at all."""
        settings = self._config.supervisor
        self.remedy = found.remedy if found else ""
        if self.plan.trial and not self._was_ready:
            self.state, self.reason = "stopped", reason
            self._say("error", f"did not start: {reason}")
            return
        if found and found.permanent and not self._was_ready:
            self.state, self.reason = "failed", reason
            self._say("error", f"{reason}; not started again")
            return
        # A server that was ready has shown that it can live: only its start is counted.
        lived_s = 0.0
        if not self._was_ready and self._start is not None:
            lived_s = self._mono() - self._start.since
        self._deaths = self._deaths.after(self._mono(), settings.restart_window_s, lived_s)
        if len(self._deaths.times) > settings.restarts:
            count = len(self._deaths.times)
            self.state, self.reason = "failed", f"died {count} times, given up: {reason}"
            self._say("error", self.reason)
            return
        wait = self._deaths.backoff_s(settings.backoff_s)
        self._retry_at = self._mono() + wait
        self.state, self.reason = "stopped", f"died ({reason}); restart in {wait:.0f} s"
        self._say("error", self.reason)
