"""Sends notices: to a command, never through a shell, and to a web address.

One at a time, in a task of its own, each with a deadline: a hook that hangs or fails is said once,
and nothing waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from eagle_tui.clock import Clock
from eagle_tui.config.notify import NotifySection
from eagle_tui.notices import Notice, notices
from eagle_tui.protocol import Severity, Status
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

SCHEMA = 1
GATHER_S = 1.0
"""What happens within this time after a notice goes with it."""
WAITING = 100
"""Notices that wait at most; the oldest go first."""
REMEMBERED = 500
LAST_S = 5.0
"""What is left to tell when the supervisor ends gets this long."""

Say = Callable[[Severity, str, str], None]


class Notifier:
    """Takes snapshots, finds what is worth telling, and tells it."""

    def __init__(
        self,
        run: RunDir,
        settings: Callable[[], NotifySection],
        clock: Clock,
        say: Say,
        gather_s: float = GATHER_S,
    ) -> None:
        """`settings` gives the section as it is now: `up` may read run.toml again."""
        self._run, self._settings, self._clock, self._say = run, settings, clock, say
        self._gather_s = gather_s
        self._before: Status | None = None
        self._waiting: deque[Notice] = deque(maxlen=WAITING)
        self._told: dict[tuple[str, str], float] = {}
        self._wake = asyncio.Event()
        self._failing: set[str] = set()
        self._about: dict[str, Any] = {}

    def look(self, status: Status, *, paused_by_order: bool) -> list[Notice]:
        """Take the next snapshot; gives what changed, also when it is not sent."""
        found = notices(self._before, status, paused_by_order)
        self._before = status
        settings = self._settings()
        if not settings.command and settings.url is None:
            return found
        run = status.run
        self._about = {"name": run.name, "dir": run.dir, "target": run.target}
        mono = self._clock.monotonic()
        for notice in found:
            key = (notice.kind, notice.subject)
            told = self._told.get(key)
            if notice.kind in settings.on and (told is None or mono - told >= settings.quiet_s):
                self._told[key] = mono
                self._waiting.append(notice)
                self._wake.set()
        if len(self._told) > REMEMBERED:
            self._told = {k: t for k, t in self._told.items() if mono - t < settings.quiet_s}
        return found

    async def run(self) -> None:
        """Send what is to be sent, until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(self._gather_s)
            await self._send()

    async def finish(self) -> None:
        """Send what is left, within a few seconds. `run` must have ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                await self._send()

    async def _send(self) -> None:
        """Send what waits. Whatever it meets is told: who sends has more to do after it."""
        try:
            await self._send_waiting()
        except Exception as error:  # noqa: BLE001
            self._say("warning", "notify", f"[notify] notices are lost: {error!r:.300}")

    async def _send_waiting(self) -> None:
        self._wake.clear()
        if not self._waiting:
            return
        body = message(self._about, list(self._waiting), self._clock.wall())
        self._waiting.clear()
        settings = self._settings()
        for what, problem in (await send(self._run, settings, body)).items():
            self._settle(what, problem)

    def _settle(self, what: str, problem: str) -> None:
        """Say once that it fails, and once that it works again."""
        if problem and what not in self._failing:
            self._failing.add(what)
            text = f"[notify] {what}: {problem}; said once until it works again"
            self._say("warning", "notify", text)
        elif not problem and what in self._failing:
            self._failing.discard(what)
            self._say("info", "notify", f"[notify] {what} works again")


def message(about: Mapping[str, Any], found: Sequence[Notice], at: float) -> dict[str, Any]:
    """What is sent (docs/status.md); `about` is name, dir and target of the run."""
    return {
        "schema": SCHEMA,
        "at": at,
        "host": os.uname().nodename,
        "run": dict(about),
        "text": visible(f"{about.get('name', '')}: " + "; ".join(n.text for n in found)),
        "notices": [
            {"kind": n.kind, "severity": n.severity, "subject": n.subject, "text": n.text}
            for n in found
        ],
    }


async def send(run: RunDir, settings: NotifySection, body: dict[str, Any]) -> dict[str, str]:
    """Send a message every way that is set; gives what went wrong by `command` and `url`, an empty
    text where nothing did."""
    found: dict[str, str] = {}
    if settings.command:
        found["command"] = await _told(_start(run, settings, body))
    if settings.url is not None:
        found["url"] = await _told(_post(settings.url, settings.timeout_s, body))
    return found


async def _told(sending: Awaitable[str]) -> str:
    """What went wrong, whatever it was: else it would end whoever sends, and no notice comes any
    more. Of what is not foreseen only the kind: its words may hold the address."""
    try:
        return await sending
    except Exception as error:  # noqa: BLE001
        return f"it cannot be sent ({type(error).__name__})"


async def _start(run: RunDir, settings: NotifySection, body: dict[str, Any]) -> str:
    """Run the hook; gives what went wrong, or an empty text."""
    log = run.logs / "notify.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            child = await asyncio.create_subprocess_exec(
                *settings.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=run.root,
                start_new_session=True,
            )
    except OSError as error:
        return f"{settings.command[0]!r} cannot be started: {error.strerror}"
    try:
        async with asyncio.timeout(settings.timeout_s):
            await child.communicate(json.dumps(body).encode())
    except TimeoutError:
        return f"{settings.command[0]!r} did not end within {settings.timeout_s:g} s"
    finally:
        if child.returncode is None:
            await _kill(child)
    if child.returncode:
        return f"{settings.command[0]!r} ended with exit code {child.returncode}; see {log}"
    return ""


async def _post(url: str, timeout_s: float, body: dict[str, Any]) -> str:
    """Post to the address; gives what went wrong. The address may hold a secret, so only its host
    is named."""
    host = urlsplit(url).hostname
    try:
        sender = httpx.AsyncClient(timeout=timeout_s)
    except Exception as error:  # noqa: BLE001 - what reads certificates and proxies raises anything
        return (
            f"{host} is not asked: the proxy or the certificates that the environment names cannot "
            f"be used ({type(error).__name__}: {error}); mend ALL_PROXY, HTTP_PROXY, HTTPS_PROXY, "
            "SSL_CERT_FILE or SSL_CERT_DIR, then `down` and `up`"
        )
    try:
        async with asyncio.timeout(timeout_s), sender as client:
            answer = await client.post(url, json=body)
    except TimeoutError:
        return f"{host} did not answer within {timeout_s:g} s"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{host} cannot be reached ({type(error).__name__})"
    if answer.status_code >= 400:
        return f"{host} answers {answer.status_code}"
    return ""


async def _kill(child: asyncio.subprocess.Process) -> None:
    """Kill a hook with all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(child.wait(), LAST_S)
