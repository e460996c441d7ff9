"""What is saved of a server that hangs, before it is ended: where its processes stand, its log's
tail, its last load. All of it with deadlines: what hangs may hang who looks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil

from eagle_tui.proc import Process
from eagle_tui.rundir import atomic
from eagle_tui.supervisor import launch
from eagle_tui.text import redact, visible

DUMP_S = 10.0
"""What one stack dump may take."""
DUMPS = 16
"""Processes whose stacks are dumped at most."""
LOADS_S = 3.0
LOG_LINES = 300

Processes = Sequence[Process]
"""A server's processes, its parent first."""


async def collect(
    path: Path,
    *,
    headline: str,
    processes: Processes,
    log: Path,
    url: str,
    headers: dict[str, str],
    http: httpx.AsyncClient,
) -> None:
    """Write the evidence to `path`. OSError when it cannot be written."""
    parts = [headline, "", "== processes", *(_row(process) for process in processes)]
    parts += ["", "== /v1/loads", await _loads(http, url, headers)]
    spy = _spy(processes)
    if spy is None:
        parts += ["", "== stacks", "py-spy is not installed: no stack dumps"]
    else:
        for process in processes[:DUMPS]:
            parts += ["", f"== stacks of {process.pid}", await _dump(spy, process.pid)]
    parts += ["", f"== last lines of {log.name}", *launch.last_lines(log, LOG_LINES)]
    text = "\n".join(visible(redact(part)) for part in "\n".join(parts).split("\n"))
    await asyncio.to_thread(atomic.write_bytes, path, (text + "\n").encode())


def _spy(processes: Processes) -> str | None:
    """py-spy: ours, or that of the server's own environment; None when there is none."""
    places = [os.environ.get("PATH", os.defpath)]
    for process in processes[:1]:
        with contextlib.suppress(psutil.Error):
            words = psutil.Process(process.pid).cmdline()
            places.append(str(Path(words[0]).parent) if words else "")
    return shutil.which("py-spy", path=os.pathsep.join(places))


def _row(process: Process) -> str:
    try:
        found = psutil.Process(process.pid)
        cpu = found.cpu_times()
        words = " ".join(found.cmdline())[:2000] or found.name()
        return f"{process.pid} {found.status()} cpu {cpu.user + cpu.system:.1f} s  {words}"
    except psutil.Error as error:
        return f"{process.pid} {type(error).__name__}"


async def _loads(http: httpx.AsyncClient, url: str, headers: dict[str, str]) -> str:
    try:
        answer = await http.get(f"{url}/v1/loads", headers=headers, timeout=LOADS_S)
    except httpx.HTTPError as error:
        return f"no answer ({type(error).__name__})"
    return f"HTTP {answer.status_code} {answer.text[:20_000]}"


async def _dump(spy: str, pid: int) -> str:
    """The stacks of one process. `--nonblocking`: the process is not stopped for it."""
    try:
        child = await asyncio.create_subprocess_exec(
            *(spy, "dump", "--nonblocking", "--pid", str(pid)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return f"py-spy cannot be run: {error}"
    try:
        async with asyncio.timeout(DUMP_S):
            out, _ = await child.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        return f"py-spy did not answer in {DUMP_S:.0f} s"
    return out.decode("utf-8", "replace")[:200_000]
