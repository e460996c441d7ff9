"""The command line of a server with what was retuned, and what the server says it came up with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from eagle_tui.config.command import command_line
from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.sglang import number
from eagle_tui.supervisor.server.context import Plan
from eagle_tui.supervisor.tuning.arguments import apply
from eagle_tui.text import visible

INFO_S = 5.0


def command(
    config: RunConfig, section: ServerSection, root: Path, port: int, plan: Plan
) -> tuple[list[str], str]:
    """The argument list, and a word that is equal for equal ones whatever the port. NoSuchModel
    when the target is not there."""
    argv = apply(command_line(config, section, root, port), plan.settings, plan.flags)
    anywhere = apply(command_line(config, section, root, 0), plan.settings, plan.flags)
    return argv, hashlib.sha256("\0".join(anywhere).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Footprint:
    """Bytes on the fullest of its GPUs."""

    weights: int
    kv: int
    free_before: int
    """Free before it loaded anything: weights and KV pool are a share of this."""


@dataclass(frozen=True)
class Resolved:
    """With what a server came up, by its own account."""

    flags: Mapping[str, str]
    """Its arguments, by name of the flag; without keys and what is no plain value."""
    pool: int | None
    """Tokens in its KV pool; None: it does not say."""
    footprint: Footprint | None = None
    """None: it does not say."""


async def read(http: httpx.AsyncClient, url: str, key: str | None) -> Resolved:
    """Ask `/server_info`; nothing is known when it does not answer. It asks the scheduler, so it is
    not for polling."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = await http.get(f"{url}/server_info", headers=headers, timeout=INFO_S)
        body = answer.json()
    except (httpx.HTTPError, ValueError):
        return Resolved({}, None)
    return parse(body) if isinstance(body, dict) else Resolved({}, None)


def parse(info: Mapping[str, Any]) -> Resolved:
    """What `/server_info` says."""
    found: dict[str, str] = {}
    for name, value in info.items():
        if isinstance(value, bool):
            found[name.replace("_", "-")] = "true" if value else "false"
        elif isinstance(value, int | float | str) and "key" not in name:
            found[name.replace("_", "-")] = visible(str(value))[:200]
    pool = info.get("max_total_num_tokens")
    return Resolved(found, pool if isinstance(pool, int) else None, footprint(info))


def footprint(info: Mapping[str, Any]) -> Footprint | None:
    """What its ranks say of their memory (GB of 2^30 bytes), of the one that holds most."""
    ranks = info.get("internal_states")
    found = []
    for rank in ranks if isinstance(ranks, list) else ():
        use = rank.get("memory_usage") if isinstance(rank, dict) else None
        if not isinstance(use, dict) or use.get("startup_available") is None:
            continue
        graph = use.get("graph")
        graphs = sum(map(number, graph.values())) if isinstance(graph, dict) else number(graph)
        weights, kv = number(use.get("weight")), number(use.get("kvcache"))
        before = weights + kv + graphs + number(use["startup_available"])
        found.append(Footprint(*(int(gb * 2**30) for gb in (weights, kv, before))))
    return max(found, key=lambda f: f.weights + f.kv, default=None)
