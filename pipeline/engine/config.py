"""Command line of the embedded engine."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from .runner import ModelFacts

#: Share of the free memory for the KV pool when --max-total-tokens is not given. Padding and the
#: growth of the buffers can multiply what is really allocated (`kvpool.PADDING`, `kvcache`).
POOL_SHARE = 0.1


@dataclass(frozen=True)
class EngineConfig:
    """The flags; names and meanings follow SGLang's where SGLang has the flag."""

    model: Path
    host: str = "127.0.0.1"
    port: int = 30000
    device: str = "auto"
    dtype: str = "auto"
    max_running_requests: int = 64
    max_queued_requests: int | None = None
    max_total_tokens: int | None = None
    context_length: int | None = None
    served_model_name: str | None = None
    reasoning_parser: str | None = None
    seed: int = 0
    schedule_conservativeness: float = 1.0
    api_key: str | None = None

    @property
    def model_name(self) -> str:
        """The name in answers and metric labels."""
        return self.served_model_name or str(self.model)

    def pool_tokens(self, facts: ModelFacts) -> int:
        """Capacity of the KV pool: as given, or what a share of the free memory holds, but never
        more than all rows at full context could use."""
        useful = self.max_running_requests * facts.context_len
        if self.max_total_tokens is not None:
            return min(self.max_total_tokens, useful)
        if facts.device.startswith("cuda"):
            free = torch.cuda.mem_get_info(torch.device(facts.device))[0]
        else:
            free = psutil.virtual_memory().available
        return max(
            facts.context_len, min(useful, int(free * POOL_SHARE) // facts.kv_bytes_per_token)
        )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def parse_arguments(argv: list[str] | None = None) -> EngineConfig:
    """Read the command line; exits with status 2 and a sentence when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m eagle_tui.pipeline.engine",
        description="Serve a small model with the part of SGLang's HTTP API that eagle-tui uses.",
    )
    add = parser.add_argument
    add("--model", "--model-path", type=Path, required=True, help="model directory")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=30000)
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    add("--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16"))
    add("--max-running-requests", type=_positive, default=64, help="rows computed together")
    add("--max-queued-requests", type=int, default=None, help="refuse (503) when so many wait")
    add("--max-total-tokens", type=_positive, default=None, help="capacity of the KV pool")
    add("--context-length", type=_positive, default=None, help="longest prompt plus output")
    add("--served-model-name", default=None)
    add("--reasoning-parser", default=None, help="count reasoning_tokens, e.g. qwen3")
    add("--seed", "--random-seed", type=int, default=0, help="of requests without their own")
    add(
        "--schedule-conservativeness",
        type=float,
        default=1.0,
        help="scales how much of the new tokens to come is reserved; lower: more retractions",
    )
    add("--api-key", default=None, help="require Authorization: Bearer KEY")
    add("--api-key-env", default=None, help="the same, KEY being in this environment variable")
    found = vars(parser.parse_args(argv))
    if name := found.pop("api_key_env"):
        found["api_key"] = os.environ.get(name) or parser.error(f"{name} is not set")
    return EngineConfig(**found)
