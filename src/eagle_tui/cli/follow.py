"""Looking at a run without a screen: status, events."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, ask, rundir
from eagle_tui.client import Down, SocketClient, ensure_supervisor, last_status
from eagle_tui.protocol import Event, Status
from eagle_tui.text import visible

POLL_S = 1.0


def current(path: Path) -> Status:
    """The status from the supervisor, or the last one that it left when the run is down."""
    run = rundir(path)

    async def look(client: SocketClient) -> Status:
        return await client.status()

    try:
        return ask(run, look)
    except Down:
        before = last_status(run)
        if before is None:
            raise
        return before


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        side: JustifyMethod = "right" if column.startswith("-") else "left"
        table.add_column(column.lstrip("-"), justify=side, no_wrap=True, overflow="ignore")
    return table


def _add(table: Table, *cells: object) -> None:
    table.add_row(*(Text(visible(str(cell))) for cell in cells))


def render(status: Status, console: Console) -> None:
    """The status as a person reads it."""
    run = status.run
    console.print(
        Text(
            visible(
                f"{run.name}  {run.target}  {status.supervisor.state}  "
                f"elapsed {fmt.duration(run.elapsed_s)}  "
                f"left {fmt.eta_finish(run.eta_s, status.at)}"
                f"{fmt.beside(run.eta_without) if run.eta_s else ''}"
            )
        )
    )
    for alert in status.alerts:
        remedy = f" ({alert.remedy})" if alert.remedy else ""
        console.print(Text(visible(f"{alert.severity}: {alert.sentence}{remedy}")))
    phases = _table("phase", "state", "-done", "-elapsed", "-left", "why")
    for p in status.phases:
        done = fmt.progress(p.done, p.total)
        _add(phases, p.name, p.state, done, fmt.duration(p.elapsed_s), fmt.eta(p.eta_s), p.reason)
    console.print(phases)
    heads = ("-done", "-trunc", "-failed", "-tokens", "-cap", "-/min", "-mean", "-p95", "-left")
    data = _table("dataset", "state", *heads)
    together = [status.total] if status.total else []
    for d in (*status.datasets, *together):
        _add(
            data,
            *(d.name, d.state, fmt.progress(d.done, d.prompts), d.truncated),
            *(d.failed + d.no_answer + d.loop, fmt.count(d.tokens), fmt.count(d.cap_tokens)),
            *(fmt.rate(d.rate_per_min), fmt.count(d.tokens_mean), fmt.count(d.tokens_p95)),
            fmt.eta(d.eta_s),
        )
    console.print(data)
    servers = _table("server", "state", "-tok/s", "-running", "-queued", "-KV", "why")
    for s in status.servers:
        kv = fmt.percent(s.kv_usage)
        running = "–" if s.running is None else s.running
        queued = "–" if s.queued is None else s.queued
        _add(servers, s.name, s.state, fmt.rate(s.tok_s), running, queued, kv, s.reason)
    console.print(servers)


@click.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="As JSON (docs/status.md).")
def status(run: Path, as_json: bool) -> None:
    """How the run stands."""
    found = current(run)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
        return
    # Lines are never folded: a terminal does that itself, and a script wants them whole.
    render(found, Console(highlight=False, soft_wrap=True, width=400))


def event_line(event: Event) -> str:
    """One event as a line of text."""
    at = fmt.stamp(event.at, event.at)
    return visible(f"{at} {event.severity:<7} {event.source}: {event.text}").replace("\n", " ")


@click.command()
@RUN
@click.option("--follow", "-f", is_flag=True, help="Go on until interrupted.")
@click.option("--limit", type=click.IntRange(1, 2000), default=200, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def events(run: Path, follow: bool, limit: int, as_json: bool) -> None:
    """What happened in the run."""
    found = rundir(run)
    ensure_supervisor(found)

    def show(event: Event) -> None:
        body: dict[str, Any] = event.model_dump(mode="json")
        click.echo(json.dumps(body) if as_json else event_line(event))

    async def read() -> None:
        after = 0
        async with SocketClient(found) as client:
            while True:
                for event in await client.events(after, limit):
                    after = event.id
                    show(event)
                if not follow:
                    return
                await asyncio.sleep(POLL_S)

    asyncio.run(read())


COMMANDS = [status, events]
