"""Bodies of the endpoints that only tell: model, server, load."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from . import SGLANG_VERSION
from .config import EngineConfig
from .engine import Engine
from .errors import Refusal

#: Sections of /v1/loads that may be asked for.
SECTIONS = ("core", "memory", "spec", "lora", "disagg", "queues", "all")
_GB = 1 << 30


def model_info(engine: Engine, config: EngineConfig) -> dict[str, Any]:
    """``/model_info``."""
    facts = engine.facts
    return {
        "model_path": facts.path,
        "served_model_name": config.model_name,
        "tokenizer_path": facts.path,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "load_format": "auto",
        "reasoning_parser": config.reasoning_parser,
        "tool_call_parser": None,
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": facts.model_type,
        "architectures": list(facts.architectures),
    }


def models(engine: Engine, config: EngineConfig, created: int) -> dict[str, Any]:
    """``/v1/models``; ``max_model_len`` is the context length."""
    card = {
        "id": config.model_name,
        "object": "model",
        "created": created,
        "owned_by": "eagle-tui",
        "root": config.model_name,
        "parent": None,
        "max_model_len": engine.limits.context_len,
    }
    return {"object": "list", "data": [card]}


def server_info(engine: Engine, config: EngineConfig, started: float) -> dict[str, Any]:
    """``/server_info``: resolved flags at the top level, live figures in ``internal_states``."""
    facts, limits, counters = engine.facts, engine.limits, engine.counters
    return {
        "model_path": facts.path,
        "tokenizer_path": facts.path,
        "served_model_name": config.model_name,
        "host": config.host,
        "port": config.port,
        "device": facts.device,
        "dtype": facts.dtype,
        "context_length": config.context_length,
        "max_running_requests": config.max_running_requests,
        "max_queued_requests": config.max_queued_requests,
        "max_total_tokens": config.max_total_tokens,
        "reasoning_parser": config.reasoning_parser,
        "random_seed": config.seed,
        "api_key": None if config.api_key is None else "***",
        "speculative_algorithm": None,
        "enable_metrics": True,
        "engine": "eagle-tui embedded",
        "version": SGLANG_VERSION,
        "status": "ready",
        "startup_time": started,
        "max_total_num_tokens": limits.max_total_num_tokens,
        "max_req_input_len": limits.max_req_input_len,
        "internal_states": [
            {
                "last_gen_throughput": counters.gen_throughput,
                "memory_usage": {
                    "weight": round(facts.weight_bytes / _GB, 3),
                    "kvcache": round(_kv_gb(engine), 3),
                    "graph": 0,
                    "token_capacity": limits.max_total_num_tokens,
                },
                "effective_max_running_requests_per_dp": config.max_running_requests,
            }
        ],
    }


def _kv_gb(engine: Engine) -> float:
    """Size of the full pool; what is allocated follows what runs."""
    return engine.limits.max_total_num_tokens * engine.facts.kv_bytes_per_token / _GB


def read_include(text: str | None) -> frozenset[str]:
    """The sections named by ``?include=``; raises `Refusal` for one that does not exist."""
    if text is None:
        return frozenset(SECTIONS)
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(names - set(SECTIONS))
    if unknown:
        raise Refusal(f"Invalid include {unknown}: valid sections are {', '.join(SECTIONS)}.")
    return frozenset(SECTIONS) if "all" in names else names | {"core"}


def load_row(engine: Engine, config: EngineConfig, sections: frozenset[str]) -> dict[str, Any]:
    """The one element of ``loads`` (there is one rank)."""
    load, limits = engine.load, engine.limits
    pool = limits.max_total_num_tokens
    row: dict[str, Any] = {
        "timestamp": load.timestamp,
        "dp_rank": 0,
        "num_running_reqs": load.running,
        "num_waiting_reqs": load.waiting,
        "num_waiting_uncached_tokens": load.waiting_tokens,
        "num_used_tokens": load.used_tokens,
        "num_total_tokens": load.used_tokens + load.waiting_tokens,
        "num_active_tokens": load.used_tokens,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": pool,
        "max_running_requests": config.max_running_requests,
        "token_usage": round(load.used_tokens / pool, 4),
        "gen_throughput": round(load.gen_throughput, 2),
        "cache_hit_rate": 0.0,
        "utilization": 0.0,
        "total_prefill_uncached_tokens": load.prefill_tokens,
        "total_prefill_busy_us": load.prefill_us,
        "decode_moments": None if load.decode_moments is None else list(load.decode_moments),
    }
    if "memory" in sections:
        row["memory"] = {
            "weight_gb": round(engine.facts.weight_bytes / _GB, 3),
            "kv_cache_gb": round(_kv_gb(engine), 3),
            "graph_gb": 0.0,
            "token_capacity": pool,
        }
    if "queues" in sections:
        row["queues"] = {
            "waiting": load.waiting,
            "grammar": 0,
            "paused": 0,
            "retracted": load.retracted,
            "prealloc_ready": 0,
        }
    return row


def loads(
    engine: Engine, config: EngineConfig, sections: frozenset[str], dp_rank: int | None
) -> dict[str, Any]:
    """``/v1/loads`` as JSON."""
    on_gpu = engine.facts.device.startswith("cuda")
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": SGLANG_VERSION,
        "accelerator": "cuda" if on_gpu else None,
        "num_accelerators": 1,
        "loads": [load_row(engine, config, sections)] if dp_rank in (None, 0) else [],
    }


def loads_text(row: dict[str, Any]) -> str:
    """``/v1/loads?format=prometheus``: every number as a gauge."""
    lines: list[str] = []

    def add(prefix: str, values: dict[str, Any]) -> None:
        for key, value in values.items():
            if isinstance(value, dict):
                add(f"{prefix}{key}_", value)
            elif isinstance(value, int | float) and key != "dp_rank":
                lines.append(f"# TYPE {prefix}{key} gauge")
                lines.append(f'{prefix}{key}{{dp_rank="0"}} {value}')

    add("sglang_", row)
    return "\n".join(lines) + "\n"
