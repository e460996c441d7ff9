"""What this machine has for a run: Python, packages, GPUs, memory, disk, limits, SGLang."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import resource
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx
import psutil

from eagle_tui import __version__, fmt
from eagle_tui.cli.doctor.findings import Finding
from eagle_tui.config import ConfigError, load_config
from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.rundir.lookup import missing
from eagle_tui.rundir.paths import RunDir

OPEN_FILES = 4096
"""A server with 150 requests in flight, the workers' shards and logs, with room."""
SHARED_BYTES = 1 << 30
"""What loaders and NCCL pass between processes on one machine; Docker gives 64 MiB."""
DISK_BYTES = 20 * 10**9
"""Less than this is no place for hidden states."""
NETWORK_FS = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "beegfs", "ceph", "9p")
SGLANG_LEAST = (0, 5, 17)
ASK_S = 60.0
"""Importing a package's metadata is quick, but a cold network disk is not."""
GPU_S = 15.0
SAMPLERS = tuple(
    [sys.executable, "-m", f"eagle_tui.telemetry.{module}"]
    for module in ("nvml_sampler", "amd_sampler")
)


def machine(where: Path) -> list[Finding]:
    """Everything that does not depend on a run; `where` is the directory a run would be in."""
    return [
        Finding("ok", "eagle-tui", f"{__version__}, Python {platform.python_version()}"),
        *packages(metadata.requires("eagle-tui") or [], _installed),
        gpus(),
        _memory(),
        *disk(where),
        _open_files(),
        *_shared_memory(Path("/dev/shm")),
        _tmux(),
    ]


def run(found: RunDir) -> list[Finding]:
    """What a run's run.toml asks of this machine."""
    try:
        config = load_config(found.config)
    except ConfigError as error:
        return [Finding("bad", "run.toml", str(error))]
    lacks = [Finding("bad", "run.toml", problem) for problem in missing(config, found)]
    fine = [Finding("ok", "run.toml", f"{found.config}: fine")]
    return [*(lacks or fine), *(server(config, section) for section in config.server)]


def packages(requires: Iterable[str], installed: Callable[[str], str | None]) -> list[Finding]:
    """Whether the packages are there that `requires` (Requires-Dist lines) names, for the program
    and for the pipeline."""
    lacking: dict[str, list[str]] = {"": [], "pipeline": []}
    for line in requires:
        name = line.split(";")[0].strip()
        for mark in "<>=!~[ (":
            name = name.split(mark)[0]
        extra = line.partition("extra ==")[2].strip(" \"'")
        if extra in lacking and installed(name) is None:
            lacking[extra].append(name)
    found = []
    if lacking[""]:
        words = f"not installed: {', '.join(lacking[''])}"
        found.append(Finding("bad", "packages", words, ("pip install --upgrade eagle-tui",)))
    if lacking["pipeline"]:
        words = f"not installed: {', '.join(lacking['pipeline'])}; the phases cannot run here"
        found.append(Finding("lack", "pipeline", words, ("pip install 'eagle-tui[pipeline]'",)))
    if not found:
        torch = installed("torch")
        found.append(Finding("ok", "packages", f"all there; torch {torch}"))
    return found


def gpus(commands: Iterable[list[str]] = SAMPLERS, wait_s: float = GPU_S) -> Finding:
    """What the samplers of the GPUs' makers say: the first one that finds any, else what the first
    one says. Each is a child, which may hang in a driver."""
    found = [Finding("ok", "GPUs", "none")]
    for command in commands:
        line = _first_line(command, wait_s)
        if not line:
            words = f"the driver does not answer within {wait_s:.0f} s"
            found.append(Finding("lack", "GPUs", words))
            continue
        try:
            said = json.loads(line)
            rows = said.get("gpus")
            if rows:
                return _gpus(rows)
            found.append(Finding("ok", "GPUs", str(said.get("note") or "none")))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            words = f"the sampler's answer cannot be read: {error!r}"
            found.append(Finding("lack", "GPUs", words))
    return found[1] if len(found) > 1 else found[0]


def _first_line(command: list[str], wait_s: float) -> bytes:
    """The first line that a child prints; empty when it prints none in time."""
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    line = b""
    if select.select([child.stdout], [], [], wait_s)[0]:
        line = child.stdout.readline()
    child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1.0)  # one that hangs in the driver cannot be killed
    return line


def _gpus(rows: list[dict[str, Any]]) -> Finding:
    states = [f"{gpu['index']}: {gpu['state']}" for gpu in rows if gpu["state"] != "ok"]
    names = sorted({str(gpu["name"]) for gpu in rows})
    memory = sorted({fmt.size(gpu["mem_total"]) for gpu in rows if gpu["mem_total"]})
    each = f", {' or '.join(memory)} each" if memory else ""
    text = f"{len(rows)} × {', '.join(names)}{each}"
    if states:
        return Finding("lack", "GPUs", f"{text}; {'; '.join(states)}")
    return Finding("ok", "GPUs", text)


def disk(where: Path) -> list[Finding]:
    """Room and kind of the file system that holds `where`."""
    free = shutil.disk_usage(where).free
    detail = f"{fmt.size(free)} free at {where}"
    found = [Finding("lack" if free < DISK_BYTES else "ok", "disk", detail)]
    kind = _file_system(where.resolve(), psutil.disk_partitions(all=True))
    if kind in NETWORK_FS:
        found.append(
            Finding(
                "lack",
                "file system",
                f"{kind} at {where}: locks and state.sqlite want a local disk; put the run on one",
            )
        )
    return found


def server(config: RunConfig, section: ServerSection) -> Finding:
    """Whether a server of run.toml could be started, or answers."""
    what = f"server {section.name}"
    if section.engine == "embedded":
        return Finding("ok", what, "the embedded engine, for small models")
    if section.url:
        return _attached(what, section.url)
    program = shutil.which(section.command[0])
    if program is None:
        return Finding("bad", what, f"there is no program {section.command[0]!r}")
    if not Path(program).name.startswith("python"):
        return Finding("ok", what, f"started by {program}; its SGLang cannot be looked up")
    code = "from importlib.metadata import version; print(version('sglang'))"
    try:
        done = subprocess.run(
            [program, "-c", code], capture_output=True, text=True, timeout=ASK_S, check=False,
            stdin=subprocess.DEVNULL, errors="replace", env={**os.environ, **section.env},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("bad", what, f"{program} does not run: {error}")
    version = done.stdout.strip()
    if done.returncode or not version:
        install = f"{program} -m pip install 'sglang>={'.'.join(map(str, SGLANG_LEAST))}'"
        return Finding("bad", what, f"no SGLang in the environment of {program}", (install,))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if numbers < SGLANG_LEAST:
        least = ".".join(map(str, SGLANG_LEAST))
        return Finding("lack", what, f"SGLang {version}; tested from {least} on")
    return Finding("ok", what, f"SGLang {version} in the environment of {program}")


def _attached(what: str, url: str) -> Finding:
    try:
        code = httpx.get(f"{url}/health", timeout=5.0, trust_env=False).status_code
    except httpx.HTTPError as error:
        return Finding("bad", what, f"{url} does not answer ({type(error).__name__})")
    return Finding("ok" if code == 200 else "lack", what, f"{url} answers {code} to /health")


def _memory() -> Finding:
    cores = len(os.sched_getaffinity(0))
    total = psutil.virtual_memory().total
    return Finding("ok", "machine", f"{cores} cores, {fmt.size(total)} memory")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES:
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, 16 * OPEN_FILES)
        words = f"{soft} may be open at once; servers under load need more"
        return Finding("lack", "open files", words, (f"ulimit -n {most}",))
    return Finding("ok", "open files", "no limit" if soft == resource.RLIM_INFINITY else str(soft))


def _shared_memory(place: Path) -> list[Finding]:
    try:
        total = shutil.disk_usage(place).total
    except OSError:
        return []
    if total >= SHARED_BYTES:
        return [Finding("ok", "shared memory", fmt.size(total))]
    words = f"{fmt.size(total)} at {place}: too little for several GPUs; for a container"
    return [Finding("lack", "shared memory", words, ("docker run --shm-size 16g …",))]


def _tmux() -> Finding:
    if shutil.which("tmux"):
        return Finding("ok", "tmux", "installed")
    words = "not installed: the screen ends with the connection (the run does not)"
    return Finding("lack", "tmux", words)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _file_system(path: Path, partitions: Iterable[object]) -> str:
    """The kind of the file system that holds `path`: of the longest mount point above it."""
    best, kind = -1, ""
    for item in partitions:
        mount, fstype = Path(item.mountpoint), item.fstype  # type: ignore[attr-defined]
        if path.is_relative_to(mount) and len(mount.parts) > best:
            best, kind = len(mount.parts), fstype
    return kind
