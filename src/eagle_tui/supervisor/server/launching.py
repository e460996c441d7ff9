"""One launch of a server: recorded before its process is there, so that it is always found."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from eagle_tui.config import speculation
from eagle_tui.config.command import server_environment
from eagle_tui.config.model import RunConfig, ServerSection
from eagle_tui.config.target import NoSuchModel
from eagle_tui.ports import no_address, port_taken
from eagle_tui.rundir import keys
from eagle_tui.supervisor import launch
from eagle_tui.supervisor.launch import Handle
from eagle_tui.supervisor.server import memory, resolved
from eagle_tui.supervisor.server.context import Context, Plan
from eagle_tui.supervisor.server.start import Start


@dataclass(frozen=True)
class Obstacle:
    """Why it cannot be launched now."""

    reason: str
    remedy: str = ""
    permanent: bool = False
    """Waiting cannot help."""


def obstacle(config: RunConfig, section: ServerSection, root: Path, plan: Plan) -> Obstacle | None:
    """What SGLang itself would find out only after the load, or never say; None: nothing."""
    with contextlib.suppress(NoSuchModel):  # `begin` says that
        argv, _ = resolved.command(config, section, root, section.port or 0, plan)
        if fault := speculation.command_fault(argv, root):
            return Obstacle(fault, "correct it in [server.flags] or command", permanent=True)
    if why := no_address(section.host):
        reason = f"cannot listen on {section.host}: {why}"
        return Obstacle(reason, "correct `host` of its [[server]] in run.toml", permanent=True)
    if section.port and port_taken(section.host, section.port):
        # It would load the model first, and then warm up whoever listens there.
        return Obstacle(f"port {section.port} is taken by another program; waiting for it")
    return None


@dataclass(frozen=True)
class Launched:
    """What came of it."""

    number: int
    """Of the attempt."""
    url: str
    start: Start
    handle: Handle | None
    """None: it cannot be started."""
    failure: str = ""
    """Why not."""


def log_path(context: Context, section: ServerSection, number: int) -> Path:
    """The log of an attempt."""
    return context.run.log(f"server-{section.name}", number)


def begin(
    config: RunConfig, section: ServerSection, context: Context, plan: Plan, port: int
) -> Launched:
    """Start it on that port."""
    store, clock = context.store, context.clock
    wall, mono = clock.wall(), clock.monotonic()
    argv: list[str] = []
    same, missing = "", ""
    try:
        argv, same = resolved.command(config, section, context.run.root, port, plan)
    except NoSuchModel as error:
        missing = str(error)
    start = Start(mono, store.servers.last_start_s(section.name, same))
    token, url = launch.new_token(), f"http://{section.host}:{port}"
    before = memory.in_use(context.gpus(), section.gpus)
    store.servers.launching(token, section.name, plan.settings, same, plan.retune, before)
    number = store.begin("server", section.name, token, wall, url)
    log = log_path(context, section, number)
    try:
        if missing:
            raise OSError(missing)
        keys.hand_over(context.run.root, section, log)
        handle = launch.spawn(
            argv,
            token=token,
            log=log,
            cwd=context.run.root,
            env=server_environment(section),
        )
    except OSError as error:
        failure = f"cannot be started: {error}"
        store.ended(token, wall, outcome="failed", reason=failure)
        return Launched(number, url, start, None, failure)
    store.launched(token, handle.process)
    return Launched(number, url, start, handle)
