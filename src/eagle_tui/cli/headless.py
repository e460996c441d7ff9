"""Following a run without a screen: a line only when something changed."""

from __future__ import annotations

import asyncio

import click

from eagle_tui import fmt
from eagle_tui.client import SocketClient, wait_gone
from eagle_tui.protocol import PhaseStatus, Status
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

POLL_S = 1.0
EVERY_S = 5.0
"""Least time between two progress lines of the same phase."""
DOWN_S = 120.0
"""Servers get a minute to stop by themselves; then they are killed."""
FAILED = 1


def phase_line(phase: PhaseStatus, status: Status) -> str:
    """`generate  running  120/480 responses  1.23k tok/s  left 2–3 min`."""
    parts = [f"{phase.name:<9}", f"{phase.state:<8}"]
    if phase.done is not None:
        parts.append(f"{fmt.progress(phase.done, phase.total)} {phase.unit}".strip())
    if phase.name == "generate" and phase.state == "running":
        live = [s.tok_s for s in status.servers if s.tok_s is not None]
        if live:
            parts.append(f"{fmt.rate(sum(live))} tok/s")
    if phase.eta_s is not None and phase.state == "running":
        parts.append(f"left {fmt.eta(phase.eta_s)}")
    if phase.reason:
        parts.append(phase.reason)
    return visible("  ".join(parts))


def runnable(status: Status) -> list[PhaseStatus]:
    """The phases that this run is to do."""
    return [p for p in status.phases if p.state != "blocked" or p.attempt]


async def follow_to_the_end(run: RunDir, *, stop_after: bool) -> int:
    """Print progress until every phase is done (0) or one has failed (1)."""
    shown: dict[str, tuple[str, str]] = {}
    last_at: dict[str, float] = {}
    seen_event = 0
    loop = asyncio.get_running_loop()
    async with SocketClient(run) as client:
        while True:
            status = await client.status()
            for event in await client.events(seen_event, 200):
                seen_event = event.id
                if event.severity != "info":
                    text = visible(f"{event.source}: {event.text}")
                    click.echo(f"{fmt.clock(event.at)}  {event.severity}: {text}")
            for phase in status.phases:
                if phase.state in ("pending", "blocked") and not phase.attempt:
                    continue
                line = phase_line(phase, status)
                before = shown.get(phase.name)
                recent = loop.time() - last_at.get(phase.name, float("-inf")) < EVERY_S
                if before is None or before[0] != phase.state or (before[1] != line and not recent):
                    shown[phase.name] = (phase.state, line)
                    last_at[phase.name] = loop.time()
                    click.echo(f"{fmt.clock(status.at)}  {line}")
            code = outcome(status)
            if code is not None:
                if code == 0:
                    left = [p.name for p in status.phases if p.state == "blocked"]
                    but = f"; left out by run.toml: {', '.join(left)}" if left else ""
                    click.echo(f"every phase is done{but}")
                if stop_after:
                    await client.command("down", {})
                    await asyncio.to_thread(wait_gone, run, DOWN_S)
                return code
            await asyncio.sleep(POLL_S)


def outcome(status: Status) -> int | None:
    """0 when every phase is done, 1 when one failed, None while the run goes on."""
    states = [p.state for p in runnable(status)]
    if any(state == "failed" for state in states):
        return FAILED
    if any(s.state == "failed" for s in status.servers):
        return FAILED
    return 0 if states and all(state == "done" for state in states) else None
