"""The command line of a server with what was retuned, and what the server says it came up with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from eagle_tui.config.command import command_line
from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.server.context import Plan
from eagle_tui.supervisor.tuning.arguments import apply

INFO_S = 5.0
SGLANG_ENV = {
    # Diagnostic waits of a minute in which clients hang and memory is held; we look ourselves.
    "SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0",
    "SGLANG_PYSPY_DUMP_BEFORE_CRASH": "0",
    # Children's titles then do not overwrite their environment, by which they are found.
    "SPT_NOENV": "1",
}


def command(
    config: RunConfig, section: ServerSection, root: Path, port: int, plan: Plan
) -> tuple[list[str], str]:
    """The argument list, and a word that is equal for equal ones whatever the port. NoSuchModel
    when the target is not there."""
    argv = apply(command_line(config, section, root, port), plan.settings)
    anywhere = apply(command_line(config, section, root, 0), plan.settings)
    return argv, hashlib.sha256("\0".join(anywhere).encode()).hexdigest()[:16]


def environment(section: ServerSection) -> dict[str, str]:
    """What is added to our own environment."""
    env = {"PYTHONUNBUFFERED": "1", **launch.SAFE_PATH}
    if section.engine == "sglang":
        env |= SGLANG_ENV
    if section.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, section.gpus))
    return env | section.env


async def read(http: httpx.AsyncClient, url: str, key: str | None) -> dict[str, Any]:
    """`/server_info`; empty when it does not answer. It asks the scheduler, so it is not for
    polling."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = await http.get(f"{url}/server_info", headers=headers, timeout=INFO_S)
        body = answer.json()
    except (httpx.HTTPError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def flags_of(info: Mapping[str, Any]) -> dict[str, str]:
    """The arguments in force, by name of the flag; without keys and what is no plain value."""
    found: dict[str, str] = {}
    for name, value in info.items():
        if isinstance(value, bool):
            found[name.replace("_", "-")] = "true" if value else "false"
        elif isinstance(value, int | float | str) and "key" not in name:
            found[name.replace("_", "-")] = str(value)[:200]
    return found
