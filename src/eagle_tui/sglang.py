"""What an SGLang server (or our engine) says about itself: the parsing. Pure.

Data-parallel ranks are summed; copies of one series by tensor- or pipeline-parallel ranks are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

SAMPLE = re.compile(r"^(?:sglang:|sglang_)(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

MOST = 1e18
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
    """`/v1/loads`, over all data-parallel ranks. None: a rank does not say."""

    running: int | None
    queued: int | None
    kv_used: int | None
    kv_total: int | None
    """Tokens of the KV pool."""
    generated: float | None
    """Tokens of decode steps since the server started; None: this version does not count them."""
    prefilled: float | None
    """Prompt tokens computed since the server started."""
    accept_length: float | None
    at: float | None
    """Unix time of the oldest rank's snapshot: it stands still when the scheduler does."""

    @property
    def kv_usage(self) -> float | None:
        """Share of the KV pool in use."""
        return share(self.kv_used, self.kv_total)


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

    @property
    def work(self) -> float | None:
        """Tokens of all kinds since the server started; None when it counts none."""
        kinds = (self.decode_tokens, self.prefill_tokens, self.cached_tokens)
        known = [k for k in kinds if k is not None]
        return sum(known) if known else None

    @property
    def kv_usage(self) -> float | None:
        """Share of the KV pool in use."""
        return share(self.kv_used, self.kv_total)


def share(used: int | None, total: int | None) -> float | None:
    """`used` of `total`; None when either is not known or there is no total."""
    return used / total if used is not None and total else None


def number(value: Any) -> float:
    """A figure; what is none, or cannot be (NaN, infinite, enormous), counts as 0."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return 0.0
    return found if abs(found) < MOST else 0.0


def parse_loads(body: Any) -> Loads:
    """`/v1/loads`. ValueError when it is something else."""
    ranks = body.get("loads") if isinstance(body, dict) else None
    if not isinstance(ranks, list) or not all(isinstance(r, dict) for r in ranks):
        raise ValueError("/v1/loads: no list `loads` in the answer")
    moments = [m for r in ranks if isinstance(m := r.get("decode_moments"), list) and m]
    counts = any("decode_moments" in r for r in ranks)
    speculative = [s for r in ranks if isinstance(s := r.get("speculative"), dict)]
    accepts = [a for s in speculative if (a := number(s.get("accept_length")))]
    times = [number(r["timestamp"]) for r in ranks if r.get("timestamp")]
    prefilled = [number(p) for r in ranks if (p := r.get("total_prefill_uncached_tokens"))]
    return Loads(
        running=_total(ranks, "num_running_reqs"),
        queued=_total(ranks, "num_waiting_reqs"),
        kv_used=_total(ranks, "num_used_tokens"),
        kv_total=_total(ranks, "max_total_num_tokens"),
        # Null before the first step; not there at all in versions that do not count.
        generated=sum(number(m[5]) for m in moments if len(m) > 5) if counts else None,
        prefilled=sum(prefilled) if prefilled else None,
        accept_length=sum(accepts) / len(accepts) if accepts else None,
        at=min(times) if times else None,
    )


def _total(ranks: Sequence[dict[str, Any]], key: str) -> int | None:
    if not ranks or not all(key in rank for rank in ranks):
        return None
    return int(sum(number(rank[key]) for rank in ranks))


def samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    """Name (without prefix), labels and value of the series that we use."""
    for line in text.split("\n"):
        if not line.startswith("sglang"):
            continue
        match = SAMPLE.match(line)
        if match and match[1] in WANTED:
            yield match[1], dict(LABEL.findall(match[2] or "")), number(match[3])


def parse_metrics(text: str) -> Metrics:
    """The Prometheus text of `/metrics`."""
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

    retractions = whole("num_retracted_requests_total")
    if retractions is None and sums:
        # A counter with labels is not in the text before it was first counted up.
        retractions = 0
    accept = sums.get("spec_accept_length", 0.0) / counts.get("spec_accept_length", 1)
    return Metrics(
        decode_tokens=sums.get("realtime_tokens_total/decode"),
        prefill_tokens=sums.get("realtime_tokens_total/prefill_compute"),
        cached_tokens=sums.get("realtime_tokens_total/prefill_cache"),
        running=whole("num_running_reqs"),
        queued=whole("num_queue_reqs"),
        kv_used=whole("num_used_tokens"),
        kv_total=whole("max_total_num_tokens"),
        retractions=retractions,
        accept_length=accept or None,
    )
