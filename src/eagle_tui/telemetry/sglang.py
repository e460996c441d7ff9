"""What an SGLang server (or our engine) says about itself: parsing and polling.

Rates come from counter deltas over monotonic time, never from the server's own throughput gauge,
which stays at its last value when work stops. Data-parallel ranks are summed; tensor-parallel
copies of one series are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx

from eagle_tui.clock import Clock

POLL_TIMEOUT_S = 3.0
SAMPLE = re.compile(r"^(?:sglang:|sglang_)(\w+)(?:\{([^}]*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

WANTED = frozenset(
    {
        "realtime_tokens_total",
        "num_running_reqs",
        "num_queue_reqs",
        "num_used_tokens",
        "max_total_num_tokens",
        "num_retracted_requests_total",
        "spec_accept_length",
    }
)


@dataclass(frozen=True)
class Loads:
    """`/v1/loads`, summed over data-parallel ranks."""

    running: int
    queued: int
    kv_used: int
    kv_total: int
    generated: float | None
    """Tokens of decode steps since the server started; None before the first."""
    accept_length: float | None
    at: float | None
    """Unix time of the oldest rank's snapshot: it stands still when the scheduler does."""


@dataclass(frozen=True)
class Metrics:
    """`/metrics`, the series that we use; None where a server does not report one."""

    decode_tokens: float | None
    prefill_tokens: float | None
    cached_tokens: float | None
    running: int | None
    queued: int | None
    kv_used: int | None
    kv_total: int | None
    retractions: int | None
    accept_length: float | None


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def parse_loads(body: Any) -> Loads:
    """`/v1/loads`. ValueError when it is something else."""
    ranks = body.get("loads") if isinstance(body, dict) else None
    if not isinstance(ranks, list) or not all(isinstance(r, dict) for r in ranks):
        raise ValueError("/v1/loads: no list `loads` in the answer")
    moments = [r["decode_moments"] for r in ranks if r.get("decode_moments")]
    accepts = [
        _number(r["speculative"].get("accept_length")) for r in ranks if r.get("speculative")
    ]
    times = [_number(r["timestamp"]) for r in ranks if r.get("timestamp")]

    def total(key: str) -> int:
        return int(sum(_number(r.get(key)) for r in ranks))

    return Loads(
        running=total("num_running_reqs"),
        queued=total("num_waiting_reqs"),
        kv_used=total("num_used_tokens"),
        kv_total=total("max_total_num_tokens"),
        generated=sum(_number(m[5]) for m in moments if len(m) > 5) if moments else None,
        accept_length=sum(accepts) / len(accepts) if any(accepts) else None,
        at=min(times) if times else None,
    )


def samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    """Name (without prefix), labels and value of the series that we use."""
    for line in text.split("\n"):
        if not line.startswith("sglang"):
            continue
        match = SAMPLE.match(line)
        if match and match[1] in WANTED:
            yield match[1], dict(LABEL.findall(match[2] or "")), _number(match[3])


def parse_metrics(text: str) -> Metrics:
    """The Prometheus text of `/metrics`; NaN and infinities count as 0."""
    by_rank: dict[tuple[str, str], dict[str, float]] = {}
    for name, labels, value in samples(text):
        series = f"{name}/{labels['mode']}" if "mode" in labels else name
        ranks = by_rank.setdefault((series, labels.get("pid", "")), {})
        rank = labels.get("dp_rank", "0")
        ranks[rank] = max(ranks.get(rank, 0.0), value)
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for (series, _), ranks in by_rank.items():
        sums[series] = sums.get(series, 0.0) + sum(ranks.values())
        counts[series] = counts.get(series, 0) + len(ranks)

    def whole(series: str) -> int | None:
        return int(sums[series]) if series in sums else None

    accept = sums.get("spec_accept_length", 0.0) / counts.get("spec_accept_length", 1)
    return Metrics(
        decode_tokens=sums.get("realtime_tokens_total/decode"),
        prefill_tokens=sums.get("realtime_tokens_total/prefill_compute"),
        cached_tokens=sums.get("realtime_tokens_total/prefill_cache"),
        running=whole("num_running_reqs"),
        queued=whole("num_queue_reqs"),
        kv_used=whole("num_used_tokens"),
        kv_total=whole("max_total_num_tokens"),
        # A counter with labels is not in the text before it was first counted up.
        retractions=whole("num_retracted_requests_total") or 0,
        accept_length=accept or None,
    )


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
    """Polls one server. Keeps the counters of the look before, for the rates."""

    def __init__(self, client: httpx.AsyncClient, url: str, key: str | None, clock: Clock) -> None:
        self._client = client
        self.url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._clock = clock
        self._before: tuple[float, float] | None = None
        self._cache_before: tuple[float, float] | None = None
        self._last_hit: float | None = None
        self._metrics_note = ""
        self.last: ServerFigures | None = None

    async def healthy(self) -> str:
        """Empty when `/health` is 200; otherwise why not. Not to be called while paused."""
        try:
            answer = await self._client.get(
                f"{self.url}/health", headers=self._headers, timeout=POLL_TIMEOUT_S
            )
        except httpx.HTTPError as error:
            return f"does not answer ({type(error).__name__})"
        return "" if answer.status_code == 200 else f"/health says {answer.status_code}"

    async def poll(self) -> str:
        """One look; `last` is then new. Gives why it failed, empty when it did not."""
        try:
            answer = await self._client.get(
                f"{self.url}/v1/loads", headers=self._headers, timeout=POLL_TIMEOUT_S
            )
            if answer.status_code == 401:
                return "refuses our key (401): set api_key_env in [[server]]"
            answer.raise_for_status()
            loads = parse_loads(answer.json())
            metrics = await self._metrics()
        except (httpx.HTTPError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]
        self.last = self._combine(loads, metrics)
        return ""

    async def _metrics(self) -> Metrics | None:
        if self._metrics_note:
            return None
        answer = await self._client.get(
            f"{self.url}/metrics", headers=self._headers, timeout=POLL_TIMEOUT_S
        )
        if answer.status_code == 404:
            self._metrics_note = "metrics are off: start the server with --enable-metrics"
        elif answer.status_code == 401:
            self._metrics_note = "metrics need a key"
        if answer.status_code != 200:
            return None
        return parse_metrics(answer.text)

    def _combine(self, loads: Loads, metrics: Metrics | None) -> ServerFigures:
        mono = self._clock.monotonic()
        generated = loads.generated
        cache_hit = None
        if metrics is not None:
            generated = metrics.decode_tokens if metrics.decode_tokens is not None else generated
            cache_hit = self._hit(metrics)
        if generated is None:
            generated = 0.0
        tok_s = None
        if self._before is not None and mono > self._before[0] and generated >= self._before[1]:
            tok_s = (generated - self._before[1]) / (mono - self._before[0])
        self._before = (mono, generated)
        return ServerFigures(
            mono=mono,
            tok_s=tok_s,
            running=loads.running,
            queued=loads.queued,
            kv_usage=loads.kv_used / loads.kv_total if loads.kv_total else None,
            kv_tokens=loads.kv_total or None,
            cache_hit=cache_hit,
            accept_length=loads.accept_length or (metrics.accept_length if metrics else None),
            retractions=metrics.retractions if metrics else None,
            generated=generated,
            heartbeat=loads.at,
            note=self._metrics_note,
        )

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
