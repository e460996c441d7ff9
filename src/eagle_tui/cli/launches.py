"""`eagle-tui launches` and `settings`: the Server screen, and what `retune` can change, without a
screen."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click
from rich.console import Console

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, ask, rundir
from eagle_tui.cli.look import ask_any
from eagle_tui.cli.tables import add, table
from eagle_tui.client_api import NotFound, RunClient
from eagle_tui.protocol import Launch, Tuning
from eagle_tui.text import visible


@click.command()
@RUN
@click.option("--server", help="Only this server.")
@click.option(
    "-n",
    "limit",
    type=click.IntRange(1, 2000),
    default=50,
    show_default=True,
    help="The newest N.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def launches(run: Path, server: str | None, limit: int, as_json: bool) -> None:
    """Launches of the servers: settings, how long they took, outcome and effect."""

    async def look(client: RunClient) -> list[Launch]:
        return await client.launches(server, limit)

    found = ask_any(rundir(run), look)
    if as_json:
        for launch in found:
            click.echo(json.dumps(launch.model_dump(mode="json")))
        return
    rows = table("at", "server", "-no", "-start", "-lived", "outcome", "-pool", "settings", "why")
    for launch in found:
        add(rows, *_cells(launch, time.time()))
    Console(highlight=False, soft_wrap=True, width=400).print(rows)


def _cells(launch: Launch, now: float) -> tuple[str, ...]:
    begun = launch.ready_at if launch.ready_at is not None else launch.launched_at
    lived = None if launch.ended_at is None else max(0.0, launch.ended_at - begun)
    why = "; ".join(w.rstrip(".") for w in (launch.reason, launch.remedy, launch.effect) if w)
    return (
        fmt.stamp(launch.launched_at, now),
        launch.server,
        str(launch.attempt),
        fmt.duration(launch.start_s),
        fmt.duration(lived),
        launch.outcome,
        fmt.exact(launch.kv_tokens),
        settings_words(launch),
        why,
    )


def settings_words(launch: Launch) -> str:
    """What was retuned over run.toml, as it is typed."""
    words = [f"{k}={'none' if v is None else v}" for k, v in launch.settings.items()]
    return " ".join(words) or "as in run.toml"


@click.command()
@RUN
@click.argument("server", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a server.")
def settings(run: Path, server: str | None, as_json: bool) -> None:
    """What can be retuned of the servers, or of SERVER: what is in force, and what each does."""

    async def look(client: RunClient) -> list[Tuning]:
        names = [item.name for item in (await client.status()).servers]
        if server is not None and server not in names:
            raise NotFound(f"no server is named {server[:60]!r}; there are: {', '.join(names)}")
        return [await client.tuning(name) for name in names if server in (None, name)]

    for tuning in ask(rundir(run), look):
        if as_json:
            click.echo(json.dumps(tuning.model_dump(mode="json")))
            continue
        click.echo(visible(f"server {tuning.server}{f': {tuning.note}' if tuning.note else ''}"))
        rows = table("setting", "value", "from", "what it does")
        for item in tuning.settings:
            value = "unset" if item.value is None else item.value
            what = " ".join(item.help.split())
            add(rows, item.key, value, item.source if item.known else "not known here", what)
        Console(highlight=False, soft_wrap=True, width=400).print(rows)


COMMANDS = [launches, settings]
