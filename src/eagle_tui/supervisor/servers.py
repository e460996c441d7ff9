"""The servers of the run: launch, readiness, crash and restart, stop; or attach to somebody's."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from eagle_tui.clock import Clock
from eagle_tui.config.command import command_line
from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.config.target import NoSuchModel
from eagle_tui.protocol import ServerState, ServerStatus, Severity
from eagle_tui.rundir.desired import Endpoint
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.launch import Exit, Handle
from eagle_tui.supervisor.phases import Deaths
from eagle_tui.supervisor.store import Store
from eagle_tui.telemetry.sglang import ServerPoller

UNREADY_AFTER = 3
"""Failed looks in a row after which a ready server is called unready."""
STALE_S = 10.0
"""Figures older than this are not shown as if they were true now."""

Say = Callable[[Severity, str, str], None]


@dataclass(frozen=True)
class Context:
    """What every server needs of its surroundings."""

    run: RunDir
    store: Store
    clock: Clock
    http: httpx.AsyncClient
    say: Say


def free_port(host: str) -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def port_taken(host: str, port: int) -> bool:
    """Whether somebody listens there already."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, port)) == 0


class ManagedServer:
    """One `[[server]]`. `step` is called about twice a second and never blocks."""

    def __init__(self, config: RunConfig, section: ServerSection, context: Context) -> None:
        self.section = section
        self._config = config
        self._c = context
        self.state: ServerState = "stopped"
        self.reason = ""
        self.url: str | None = section.url
        self._handle: Handle | None = None
        self._number = 0
        self._since = context.clock.monotonic()
        self._poller: ServerPoller | None = None
        self._deaths = Deaths()
        self._retry_at = 0.0
        self._misses = 0
        self._was_ready = False
        self._stop_at = 0.0
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
        return self._handle is None

    def forgive(self) -> None:
        """Forget that it failed; it may be launched again."""
        self._deaths = Deaths()
        self._retry_at = 0.0
        if self.state == "failed":
            self.state, self.reason = "stopped", ""

    def abandon(self) -> None:
        """Kill a server of ours at once; its run directory is gone."""
        if self._handle is not None:
            self._handle.kill_all()

    def status(self) -> ServerStatus:
        """Its figures; those that are too old to be true are null."""
        figures = self._poller.last if self._poller else None
        base = ServerStatus(
            name=self.section.name,
            url=self.url,
            state=self.state,
            reason=self.reason,
            pid=self._handle.process.pid if self._handle else None,
        )
        if figures is None or self.state in ("stopped", "failed", "starting"):
            return base
        age = self._c.clock.monotonic() - figures.mono
        base = base.model_copy(update={"age_s": age, "kv_tokens": figures.kv_tokens})
        if age > STALE_S:
            return base
        return base.model_copy(
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

    # -- life -------------------------------------------------------------------------------------

    async def step(self, wanted: bool) -> None:
        """Move one step towards what is wanted."""
        if self.section.url:
            await self._look("attached")
            return
        if self._handle is None:
            if wanted and self.state != "failed" and self._mono() >= self._retry_at:
                self._launch()
            return
        ended = self._handle.poll()
        if ended is not None:
            self._ended(ended)
        elif self.state == "stopping":
            if self._mono() >= self._stop_at:
                self._handle.kill_all()
        elif not wanted:
            self._begin_stop()
        elif self.state == "starting":
            await self._starting()
        else:
            await self._look("ready")

    def _mono(self) -> float:
        return self._c.clock.monotonic()

    def _new_poller(self, url: str) -> ServerPoller:
        key = os.environ.get(self.section.api_key_env) if self.section.api_key_env else None
        return ServerPoller(self._c.http, url, key, self._c.clock)

    def _say(self, severity: Severity, text: str) -> None:
        self._c.say(severity, f"server {self.section.name}", text)

    def _adopt(self) -> None:
        """Take over what a supervisor before us launched, if it still runs."""
        for attempt in self._c.store.open_attempts("server"):
            if attempt.name != self.section.name:
                continue
            handle = launch.adopt(attempt.token, attempt.process)
            if handle is None:
                reason = "ended while no supervisor was there"
                self._c.store.ended(
                    attempt.token, self._c.clock.wall(), outcome="lost", reason=reason
                )
                continue
            self._handle, self._number, self.url = handle, attempt.number, attempt.url
            self._c.store.launched(attempt.token, handle.process)
            assert attempt.url is not None
            self._poller = self._new_poller(attempt.url)
            self._was_ready = attempt.ready_at is not None
            # One that was ready goes on taking requests while we look at it again.
            self.state = "ready" if self._was_ready else "starting"
            self._since -= max(0.0, self._c.clock.wall() - attempt.launched_at)
            self._say("info", f"adopted (pid {handle.process.pid})")

    def _launch(self) -> None:
        section = self.section
        port = section.port or free_port(section.host)
        if section.port and port_taken(section.host, port):
            # SGLang would load the model first, and then warm up whoever listens there.
            self._retry_at = self._mono() + 5.0
            self.reason = f"port {port} is taken by another program; waiting for it"
            return
        url = f"http://{section.host}:{port}"
        token = launch.new_token()
        self._number = self._c.store.begin("server", section.name, token, self._c.clock.wall(), url)
        env = {"PYTHONUNBUFFERED": "1", **launch.SAFE_PATH, **section.env}
        if section.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, section.gpus))
        try:
            argv = command_line(self._config, section, self._c.run.root, port)
            self._handle = launch.spawn(
                argv, token=token, log=self._log(), cwd=self._c.run.root, env=env
            )
        except (OSError, NoSuchModel) as error:
            reason = f"cannot be started: {error}"
            self._c.store.ended(token, self._c.clock.wall(), outcome="failed", reason=reason)
            self._died(reason)
            return
        self._c.store.launched(token, self._handle.process)
        self.url, self._poller = url, self._new_poller(url)
        self._since, self._misses, self._was_ready = self._mono(), 0, False
        self.state, self.reason = "starting", ""
        self._say("info", f"starting (attempt {self._number}, {url})")

    def _log(self) -> Path:
        return self._c.run.log(f"server-{self.section.name}", self._number)

    async def _starting(self) -> None:
        assert self._poller is not None and self._handle is not None
        why_not = await self._poller.healthy()
        waited = self._mono() - self._since
        if not why_not:
            self._c.store.ready(self._handle.token, self._c.clock.wall())
            self.state, self.reason, self._misses = "ready", "", 0
            self._was_ready = True
            self._say("info", f"ready after {waited:.0f} s")
        elif waited > self.section.start_timeout_s:
            self.reason = f"not ready after {waited:.0f} s: {why_not}"
            self._say("error", self.reason)
            self._handle.kill_all()
        else:
            self.reason = f"{why_not}; {waited:.0f} s so far"

    async def _look(self, good: ServerState) -> None:
        assert self._poller is not None
        why_not = await self._poller.poll()
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

    def _begin_stop(self) -> None:
        assert self._handle is not None
        self.state, self.reason = "stopping", ""
        self._stop_at = self._mono() + self.section.stop_timeout_s
        # SIGINT lets SGLang finish and exit 0 in every version; its children end with it.
        self._handle.send(signal.SIGINT)
        self._say("info", "stopping")

    def _ended(self, ended: Exit) -> None:
        assert self._handle is not None
        left = self._handle.kill_all()
        stopping = self.state == "stopping"
        words = ended.words()
        lines = launch.last_lines(self._log(), 3)
        reason = words if stopping or not lines else f"{words}; last line: {lines[-1][:200]}"
        self._c.store.ended(
            self._handle.token,
            self._c.clock.wall(),
            outcome="stopped" if stopping else "failed",
            reason=reason,
            code=ended.code,
            signal=ended.signal,
        )
        self._handle, self._poller = None, None
        if left:
            self._say("warning", f"{left} processes that it left behind were killed")
        if stopping:
            self.state, self.reason = "stopped", ""
            self._say("info", f"stopped ({words})")
        else:
            self._died(reason)

    def _died(self, reason: str) -> None:
        settings = self._config.supervisor
        # A server that was ready has shown that it can live: only its start is counted.
        lived_s = 0.0 if self._was_ready else self._mono() - self._since
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
