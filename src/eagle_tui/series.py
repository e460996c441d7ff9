"""Which metrics of a snapshot are kept over time, and how they are called (docs/status.md)."""

from __future__ import annotations

from collections.abc import Iterable

from eagle_tui.protocol import Status

SERVER_FIGURES = (
    "tok_s",
    "running",
    "queued",
    "kv_usage",
    "cache_hit",
    "accept_length",
    "retractions",
)
GPU_FIGURES = ("util", "mem", "power_w", "temp_c")
DATASET_FIGURES = ("tokens", "done", "in_flight", "tokens_mean", "tok_s", "rate_per_min")
HOST_FIGURES = ("cpu", "mem", "disk_free")

_AT_WORK = ("running", "stalled", "draining")


def values(status: Status) -> dict[str, float | None]:
    """Every metric of a snapshot by its name; None where it is not known now.

    `tok_s`, `running`, `queued` and `retractions` are sums over the servers, `kv_usage` is the
    fullest one's, `cache_hit` and `accept_length` are means. One server's own are
    `server.NAME.FIGURE`, then `gpuN.FIGURE`, `dataset.NAME.FIGURE`, `PHASE.FIGURE`, and the
    machine's `cpu`, `mem` and `disk_free`. Shares are 0..1, memory is a share of the GPU's.
    """
    live = [s for s in status.servers if s.tok_s is not None]
    found: dict[str, float | None] = {
        "tok_s": _total(s.tok_s for s in live),
        "running": _total(s.running for s in live),
        "queued": _total(s.queued for s in live),
        "kv_usage": max((s.kv_usage for s in live if s.kv_usage is not None), default=None),
        "cache_hit": _mean(s.cache_hit for s in live),
        "accept_length": _mean(s.accept_length for s in live),
        "retractions": _total(s.retractions for s in live),
        **{name: getattr(status.host, name) for name in HOST_FIGURES},
    }
    for server in live:
        for name in SERVER_FIGURES:
            found[f"server.{server.name}.{name}"] = getattr(server, name)
    for gpu in status.gpus:
        full = gpu.mem_used is not None and gpu.mem_total
        share = gpu.mem_used / gpu.mem_total if full else None  # type: ignore[operator]
        for name in GPU_FIGURES:
            found[f"gpu{gpu.index}.{name}"] = share if name == "mem" else getattr(gpu, name)
    for data in status.datasets:
        for name in DATASET_FIGURES:
            found[f"dataset.{data.name}.{name}"] = getattr(data, name)
    for phase in status.phases:
        if phase.state in _AT_WORK:
            found[f"{phase.name}.done"] = phase.done
            found.update({f"{phase.name}.{name}": v for name, v in phase.figures.items()})
    return found


def _total(figures: Iterable[float | None]) -> float | None:
    known = [value for value in figures if value is not None]
    return float(sum(known)) if known else None


def _mean(figures: Iterable[float | None]) -> float | None:
    known = [value for value in figures if value is not None]
    return sum(known) / len(known) if known else None
