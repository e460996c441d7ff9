"""What is seen of a server: its answers, its log, its figures, and whether it hangs."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from eagle_tui.config.model import ServerSection
from eagle_tui.protocol import ServerStatus
from eagle_tui.supervisor.launch import Handle
from eagle_tui.supervisor.server import evidence, resolved
from eagle_tui.supervisor.server.context import Context
from eagle_tui.supervisor.server.hang import HangWatch
from eagle_tui.telemetry.diagnosis import Diagnosis, diagnose
from eagle_tui.telemetry.memory import oom_kills
from eagle_tui.telemetry.server_log import ServerLog, Stage
from eagle_tui.telemetry.sglang import ServerPoller

STALE_S = 10.0
"""Figures older than this are not shown as if they were true now."""
DYING_S = 1.0
"""A log that says that the server is lost gets so long to say why, too."""


class Watch:
    """Looks at one process of a server, or at one that somebody else runs (then without a log)."""

    def __init__(
        self, section: ServerSection, context: Context, url: str, log: Path | None
    ) -> None:
        self._c = context
        self.url = url
        self._key = os.environ.get(section.api_key_env) if section.api_key_env else None
        self._log_path = log
        self._log = ServerLog(log, context.clock) if log else None
        self._poller = ServerPoller(context.http, url, self._key, context.clock, self._log)
        self._hang = HangWatch(self._mono())
        self._dying_since: float | None = None
        self._kills = oom_kills() or 0

    def _mono(self) -> float:
        return self._c.clock.monotonic()

    @property
    def stage(self) -> Stage | None:
        """How far its start is, by its log."""
        return self._log.stage if self._log else None

    async def healthy(self) -> str:
        """Why it is not ready yet; empty when it is."""
        if self._log is not None:
            self._log.poll()
        return await self._poller.healthy()

    def begin(self) -> None:
        """It is ready only now: what was before was no hang."""
        self._hang = HangWatch(self._mono())

    async def resolved(self) -> resolved.Resolved:
        """With what it came up, by its own account."""
        return await resolved.read(self._c.http, self.url, self._key)

    async def look(self, in_flight: int) -> str:
        """One look at its load; why it does not answer, empty when it does. `in_flight`: requests
        that generation says it has there."""
        if self._log is not None:
            self._log.poll()
        why_not = await self._poller.poll()
        figures, mono = self._poller.last, self._mono()
        if not self._poller.answered:
            # It has to answer us, if nobody else.
            self._hang.see(None, mono)
        elif why_not or figures is None:
            # It answers, and tells nothing by which it could be judged.
            self._hang.idle(mono)
        elif figures.running == 0 and not figures.queued and not in_flight:
            self._hang.idle(mono)
        else:
            # Figures that stand still are left out after a while: not known is not idle.
            self._hang.see((figures.generated, figures.heartbeat), mono)
        return why_not

    def still_s(self) -> float:
        """Seconds in which it had work, or should have answered, and did not move."""
        return self._hang.still_s(self._mono())

    def dying(self) -> bool:
        """Whether its log says that it is lost, though its parent still lives."""
        if self._log is None:
            return False
        self._log.poll()
        if not self._log.dying:
            self._dying_since = None
            return False
        if self._dying_since is None:
            self._dying_since = self._mono()
        return self._mono() - self._dying_since >= DYING_S

    def diagnose(self, words: str) -> Diagnosis | None:
        """Why it ended, by its log; `words`: how its process ended."""
        if self._log is None:
            return None
        self._log.poll()
        return diagnose(self._log.tail, words, oom_killed=(oom_kills() or 0) > self._kills)

    def fill(self, status: ServerStatus) -> ServerStatus:
        """The status with its figures; those that are too old to be true are null."""
        figures = self._poller.last
        if figures is None:
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
                "reason": status.reason or figures.note,
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
                "reason": "; ".join(filter(None, (status.reason, "figures are from its log"))),
            }
        )

    async def save_evidence(self, headline: str, handle: Handle) -> str:
        """Save what is known of a server that hangs; gives where, as the end of a sentence."""
        assert self._log_path is not None
        family = await asyncio.to_thread(handle.family)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._c.clock.wall()))
        path = self._log_path.with_name(f"hang-{self._log_path.stem}-{stamp}.txt")
        try:
            await evidence.collect(
                path,
                headline=headline,
                processes=sorted(family, key=lambda p: (p != handle.process, p.pid)),
                log=self._log_path,
                url=self.url,
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
                http=self._c.http,
            )
        except OSError as error:
            return f"; evidence could not be saved: {error}"
        return f"; evidence is in logs/{path.name}"
