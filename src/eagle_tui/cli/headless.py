"""Following a run without a screen: a line only when something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import click

from eagle_tui import fmt
from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import Event, PhaseStatus, Status
from eagle_tui.reach import Down, StartFailed, wait_gone
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

POLL_S = 1.0
EVERY_S = 5.0
"""Least time between two progress lines of the same phase."""
DOWN_S = 120.0
"""Servers get a minute to stop by themselves; then they are killed."""
FAILED = 1
RETRY_S = 5.0


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


class Changes:
    """What is worth a line: states that changed, alerts that came or went, warnings of the
    history, and progress, but that of a phase not more often than every `every_s` seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._phases: dict[str, tuple[str, str, float]] = {}
        """State, line and monotonic time of a phase's last line."""
        self._states: dict[str, str] = {}
        self._alerts: dict[str, str] = {}

    def lines(self, status: Status, events: Iterable[Event], mono: float) -> list[str]:
        """The lines due now; `mono` is monotonic seconds."""
        found = [
            _line(event.at, f"{event.severity}: {event.source}: {event.text}")
            for event in events
            if event.severity != "info"
        ]
        found += [_line(status.at, text) for text in self._phase_lines(status, mono)]
        found += [_line(status.at, text) for text in self._state_lines(status)]
        return found

    def _phase_lines(self, status: Status, mono: float) -> Iterator[str]:
        for phase in status.phases:
            if phase.state in ("pending", "blocked") and not phase.attempt:
                continue
            line = phase_line(phase, status)
            state, before, at = self._phases.get(phase.name, ("", "", float("-inf")))
            if state != phase.state or (before != line and mono - at >= self._every_s):
                self._phases[phase.name] = (phase.state, line, mono)
                yield line

    def _state_lines(self, status: Status) -> Iterator[str]:
        first = not self._states
        named: list[tuple[str, str, str]] = [
            (f"server {s.name}", s.state, s.reason) for s in status.servers
        ]
        named += [(f"dataset {d.name}", d.state, "") for d in status.datasets]
        for name, state, reason in named:
            changed = self._states.get(name) != state
            self._states[name] = state
            if changed and not first:
                yield f"{name}: {state}{f' ({reason})' if reason else ''}"
        alerts = {a.rule: a.sentence for a in status.alerts if a.severity != "info"}
        severities = {a.rule: a.severity for a in status.alerts}
        for rule, sentence in alerts.items():
            if rule not in self._alerts:
                yield f"{severities[rule]}: {sentence}"
        for rule, sentence in self._alerts.items():
            if rule not in alerts:
                yield f"over: {sentence}"
        self._alerts = alerts


def _line(at: float, text: str) -> str:
    return f"{fmt.clock(at)}  {visible(text)}".replace("\n", " ")


async def follow_to_the_end(
    run: RunDir, *, stop_after: bool = False, every_s: float = EVERY_S
) -> int:
    """Print what changes until every phase is done (0) or one has failed (1)."""
    changes = Changes(every_s)
    seen_event = 0
    loop = asyncio.get_running_loop()
    async with SocketClient(run) as client:
        while True:
            try:
                status = await client.status()
                events = await client.events(seen_event, 200)
            except (Down, StartFailed):
                raise
            except ClientError as error:
                # It is started again by the client; what cannot be started says so.
                click.echo(visible(str(error)), err=True)
                await asyncio.sleep(RETRY_S)
                continue
            seen_event = events[-1].id if events else seen_event
            for line in changes.lines(status, events, loop.time()):
                click.echo(line)
            code = outcome(status)
            if code is not None:
                if code == 0:
                    left = [p.name for p in status.phases if p.state == "blocked"]
                    but = f"; left out by run.toml: {', '.join(left)}" if left else ""
                    click.echo(f"every phase is done{but}")
                    if status.result:
                        click.echo(visible(f"result: {status.result}"))
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
