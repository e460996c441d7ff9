"""Polling a server for its figures.

Rates come from counter deltas over monotonic time, never from the server's own throughput gauge,
which stays at its last value when work stops. What the server does not tell over HTTP is taken from
its log, when it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import httpx

from eagle_tui.clock import Clock
from eagle_tui.sglang import Loads, Metrics, parse_loads, parse_metrics
from eagle_tui.telemetry.server_log import LogLoad, ServerLog
from eagle_tui.text import parse_json

POLL_TIMEOUT_S = 3.0
FROZEN_S = 15.0
"""`/v1/loads` is a snapshot that the scheduler writes while it works and while it is idle. One that
says that requests run and stands still for so long is not true any more."""
LOG_FRESH_S = 10.0
"""Batch lines older than this are not taken for figures."""
METRICS_AGAIN_S = 60.0
"""After a refusal, `/metrics` is asked again this much later: somebody may have restarted the
server with them on."""


@dataclass(frozen=True)
class ServerFigures:
    """One look at a server. Rates are None until there are two looks."""

    mono: float
    tok_s: float | None
    running: int | None
    queued: int | None
    kv_usage: float | None
    kv_tokens: int | None
    cache_hit: float | None
    accept_length: float | None
    retractions: int | None
    generated: float | None
    heartbeat: float | None
    """Unix time at which the scheduler last wrote its snapshot."""
    note: str = ""
    """Why figures are missing, in words."""


class ServerPoller:
    """Polls one server. Keeps the counters of the look before, for the rates.

    `log`: the server's own log, polled by its owner; for what HTTP does not tell.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: str,
        key: str | None,
        clock: Clock,
        log: ServerLog | None = None,
    ) -> None:
        self._client = client
        self.url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._clock = clock
        self._log = log
        self._before: tuple[str, float, float] | None = None
        self._cache_before: tuple[float, float] | None = None
        self._last_hit: float | None = None
        self._metrics_note = ""
        self._metrics_at = 0.0
        self._loads_note = ""
        self._heartbeat: tuple[float, float] | None = None
        self.last: ServerFigures | None = None
        self.answered = False
        """Whether HTTP answered at the newest look, whatever it said."""

    async def healthy(self) -> str:
        """Empty when `/health` is 200; otherwise why not. Not to be called while paused."""
        try:
            answer = await self._get("/health")
        except httpx.HTTPError as error:
            return f"does not answer ({type(error).__name__})"
        return "" if answer.status_code == 200 else f"/health says {answer.status_code}"

    async def poll(self) -> str:
        """One look; `last` is then new. Gives why it failed, empty when it did not."""
        self.answered = False
        try:
            answer = await self._get("/v1/loads")
            self.answered = True
            if answer.status_code == 401:
                return "refuses our key (401): set api_key_env in [[server]]"
            loads = self._loads(answer)
        except (httpx.HTTPError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]
        try:
            metrics = await self._metrics()
        except httpx.HTTPError as error:
            if loads is None:
                return f"{type(error).__name__}: {error}"[:200]
            metrics = None
        log = self._log.load if self._log else None
        if log and self._clock.monotonic() - log.at_mono > LOG_FRESH_S:
            log = None
        if loads is None and metrics is None and log is None:
            return "; ".join(filter(None, (self._loads_note, self._metrics_note)))
        self.last = self._combine(loads, metrics, log)
        return ""

    async def _get(self, path: str) -> httpx.Response:
        return await self._client.get(
            self.url + path, headers=self._headers, timeout=POLL_TIMEOUT_S
        )

    def _loads(self, answer: httpx.Response) -> Loads | None:
        """What is in the answer; None when this version does not have it."""
        if answer.status_code == 404:
            self._loads_note = "no /v1/loads in this version"
            return None
        answer.raise_for_status()
        self._loads_note = ""
        return parse_loads(parse_json(answer.content))

    async def _metrics(self) -> Metrics | None:
        mono = self._clock.monotonic()
        if self._metrics_note and mono - self._metrics_at < METRICS_AGAIN_S:
            return None
        answer = await self._get("/metrics")
        self._metrics_at = mono
        if answer.status_code == 404:
            self._metrics_note = "metrics are off: start the server with --enable-metrics"
        elif answer.status_code == 401:
            self._metrics_note = "metrics need a key"
        if answer.status_code != 200:
            return None
        self._metrics_note = ""
        return parse_metrics(answer.text)

    def _combine(
        self, loads: Loads | None, metrics: Metrics | None, log: LogLoad | None
    ) -> ServerFigures:
        """The best source of each figure: snapshot, counters, log."""
        mono = self._clock.monotonic()
        source, generated = _counter(loads, metrics)
        told = loads or metrics
        tok_s = self._rate(source, generated, mono)
        notes = [self._metrics_note]
        figures = ServerFigures(
            mono=mono,
            tok_s=tok_s,
            running=told.running if told else None,
            queued=told.queued if told else None,
            kv_usage=told.kv_usage if told else None,
            kv_tokens=(told.kv_total if told else None) or None,
            cache_hit=self._hit(metrics) if metrics else None,
            accept_length=(loads.accept_length if loads else None)
            or (metrics.accept_length if metrics else None),
            retractions=metrics.retractions if metrics else None,
            generated=generated,
            heartbeat=loads.at if loads else None,
        )
        frozen = self._frozen_s(figures, mono)
        if frozen > FROZEN_S:
            notes.insert(0, f"its scheduler tells nothing new for {frozen:.0f} s")
            figures = replace(figures, running=None, queued=None, kv_usage=None)
        if log is not None:
            figures, used = _filled(figures, log, counted=bool(source))
            notes.append(f"{used} from its log" if used else "")
        return replace(figures, note="; ".join(filter(None, notes)))

    def _rate(self, source: str, generated: float | None, mono: float) -> float | None:
        """Tokens a second since the look before, of the same counter; None when it restarted."""
        before = self._before
        self._before = (source, mono, generated) if generated is not None else None
        if before is None or generated is None or before[0] != source or mono <= before[1]:
            return None
        return (generated - before[2]) / (mono - before[1]) if generated >= before[2] else None

    def _frozen_s(self, figures: ServerFigures, mono: float) -> float:
        """For how long the snapshot says that there is work and stands still. Told by our own
        clock: that of the server may differ."""
        busy = (figures.running or 0) + (figures.queued or 0) > 0
        if figures.heartbeat is None or not busy:
            self._heartbeat = None
        elif self._heartbeat is None or self._heartbeat[0] != figures.heartbeat:
            self._heartbeat = (figures.heartbeat, mono)
        return mono - self._heartbeat[1] if self._heartbeat else 0.0

    def _hit(self, metrics: Metrics) -> float | None:
        """Share of prefill tokens that came from the cache since the look before."""
        if metrics.prefill_tokens is None or metrics.cached_tokens is None:
            return None
        now = (metrics.prefill_tokens, metrics.cached_tokens)
        before, self._cache_before = self._cache_before, now
        if before is None or now[0] < before[0] or now[1] < before[1]:
            return None
        computed, cached = now[0] - before[0], now[1] - before[1]
        if computed + cached > 0:
            self._last_hit = cached / (computed + cached)
        return self._last_hit


def _counter(loads: Loads | None, metrics: Metrics | None) -> tuple[str, float | None]:
    """The counter of generated tokens that is there, with its name: two of them are never mixed in
    one difference. One that counted nothing yet is not in `/metrics`, and is at 0."""
    if metrics is not None and metrics.decode_tokens is not None:
        return "metrics", metrics.decode_tokens
    if loads is not None and loads.generated is not None:
        return "loads", loads.generated
    return ("metrics", 0.0) if metrics is not None and metrics.work is not None else ("", None)


def _filled(figures: ServerFigures, log: LogLoad, *, counted: bool) -> tuple[ServerFigures, str]:
    """With what only the log tells, and the names of that."""
    found: dict[str, float | int | None] = {}
    if not counted:
        found["tok_s"] = log.tok_s
    for name in ("running", "queued", "kv_usage", "accept_length"):
        if getattr(figures, name) is None:
            found[name] = getattr(log, name)
    if figures.retractions is None and log.retractions:
        found["retractions"] = log.retractions
    found = {name: value for name, value in found.items() if value is not None}
    words = {"tok_s": "tok/s", "kv_usage": "KV use", "accept_length": "accept length"}
    used = ", ".join(words.get(name, name) for name in found)
    return replace(figures, **found), used  # type: ignore[arg-type]
