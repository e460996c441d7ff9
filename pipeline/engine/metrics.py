"""``/metrics``: the Prometheus names and labels of SGLang that a monitor of it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from .engine import Engine
from .stats import Histogram

_RANK = {"engine_type": "unified", "tp_rank": "0", "pp_rank": "0", "moe_ep_rank": "0"}


class HttpCounts:
    """Requests and answers by path, as SGLang 0.5.23 counts them."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.responses: Counter[tuple[str, str, str]] = Counter()
        self.active: Counter[tuple[str, str]] = Counter()


def _gauge(name: str, help_: str, labels: dict[str, str], value: float) -> Metric:
    metric = GaugeMetricFamily(f"sglang:{name}", help_, labels=list(labels))
    metric.add_metric(list(labels.values()), value)
    return metric


def _counter(
    name: str, help_: str, samples: Iterable[tuple[dict[str, str], float]]
) -> Metric | None:
    """A counter family; the exposition adds ``_total``. None when there is no sample yet."""
    rows = list(samples)
    if not rows:
        return None
    metric = CounterMetricFamily(f"sglang:{name}", help_, labels=list(rows[0][0]))
    for labels, value in rows:
        metric.add_metric(list(labels.values()), value)
    return metric


def _histogram(
    name: str, help_: str, labels: dict[str, str], by_stream: dict[bool, Histogram]
) -> Metric:
    metric = HistogramMetricFamily(f"sglang:{name}", help_, labels=[*labels, "is_streaming"])
    for stream, data in by_stream.items():
        seen, buckets = 0, []
        for bound, count in zip((*data.bounds, None), data.counts, strict=True):
            seen += count
            buckets.append(("+Inf" if bound is None else str(float(bound)), float(seen)))
        metric.add_metric([*labels.values(), str(stream).lower()], buckets, data.total)
    return metric


class EngineCollector(Collector):
    """Reads the engine's counters when somebody asks, so counting costs a step nothing."""

    def __init__(self, engine: Engine, http: HttpCounts, model_name: str) -> None:
        self._engine, self._http = engine, http
        self._model = {"engine_type": "unified", "model_name": model_name}
        self._rank = {"model_name": model_name, **_RANK}

    def collect(self) -> Iterator[Metric]:
        """All metrics, in no particular order."""
        for metric in (*self._gauges(), *self._counters()):
            if metric is not None:
                yield metric
        c = self._engine.counters
        yield _histogram(
            "time_to_first_token_seconds",
            "Time until the first token of a request.",
            self._model,
            c.time_to_first_token,
        )
        yield _histogram(
            "e2e_request_latency_seconds", "Time until a request was done.", self._model, c.latency
        )

    def _gauges(self) -> Iterator[Metric]:
        c, limits = self._engine.counters, self._engine.limits
        pool = limits.max_total_num_tokens
        for name, help_, value in (
            ("num_running_reqs", "Requests in the running batch.", c.running),
            ("num_queue_reqs", "Requests that wait.", c.queued),
            ("num_retracted_reqs", "Retracted requests that wait.", c.retracted_waiting),
            ("num_used_tokens", "Tokens in the KV pool.", c.used_tokens),
            ("kv_used_tokens", "Tokens in the KV pool.", c.used_tokens),
            ("kv_available_tokens", "Free tokens of the KV pool.", pool - c.used_tokens),
            ("kv_evictable_tokens", "Cached tokens that may go (no prefix cache here).", 0),
            ("max_total_num_tokens", "Capacity of the KV pool.", pool),
            ("token_usage", "Share of the KV pool in use.", round(c.used_tokens / pool, 2)),
            ("context_len", "Longest prompt plus output.", limits.context_len),
            ("gen_throughput", "Generated tokens per second.", c.gen_throughput),
            ("cache_hit_rate", "Prefix cache hit rate (no prefix cache here).", 0.0),
            ("new_token_ratio", "Share of new tokens reserved.", c.new_token_ratio),
            ("spec_accept_length", "Accept length (no speculation here).", 0.0),
            ("spec_accept_rate", "Accept rate (no speculation here).", 0.0),
        ):
            yield _gauge(name, help_, self._rank, float(value))
        active = GaugeMetricFamily(
            "sglang:http_requests_active", "Open requests.", labels=["endpoint", "method"]
        )
        for place, count in self._http.active.items():
            active.add_metric(list(place), float(count))
        yield active

    def _counters(self) -> Iterator[Metric | None]:
        c, http = self._engine.counters, self._http
        yield _counter(
            "realtime_tokens",
            "Tokens computed, counted in every step.",
            (
                ({**self._rank, "mode": mode}, float(value))
                for mode, value in (
                    ("prefill_compute", c.prefill_tokens),
                    ("prefill_cache", 0),
                    ("decode", c.decode_tokens),
                )
            ),
        )
        yield _counter(
            "scheduler_idle_seconds",
            "Time without work.",
            [(self._rank, c.idle_seconds)],
        )
        for name, help_, values in (
            ("num_requests", "Requests done.", c.requests),
            ("prompt_tokens", "Prompt tokens of requests done.", c.prompt_tokens),
            ("generation_tokens", "Output tokens of requests done.", c.generated_tokens),
        ):
            yield _counter(
                name,
                help_,
                (
                    ({**self._model, "is_streaming": str(stream).lower()}, float(value))
                    for stream, value in values.items()
                ),
            )
        for name, help_, value in (
            ("num_aborted_requests", "Abort calls.", c.aborts),
            ("num_retracted_requests", "Retractions.", c.retractions),
        ):
            yield _counter(name, help_, [(self._model, float(value))])
        yield _counter(
            "http_requests",
            "Requests by path.",
            (
                ({"endpoint": path, "method": method}, float(count))
                for (path, method), count in http.requests.items()
            ),
        )
        yield _counter(
            "http_responses",
            "Answers by path and status.",
            (
                ({"endpoint": path, "method": method, "status_code": status}, float(count))
                for (path, method, status), count in http.responses.items()
            ),
        )


def registry_of(engine: Engine, http: HttpCounts, model_name: str) -> CollectorRegistry:
    """A registry with the engine's metrics and nothing of the Python process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine, http, model_name))
    return registry
