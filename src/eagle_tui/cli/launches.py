"""`eagle-tui launches`: which servers were started with what, how long it took, what came of it."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, rundir
from eagle_tui.cli.look import ask_any
from eagle_tui.cli.tables import table
from eagle_tui.client_api import RunClient
from eagle_tui.protocol import Launch
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
        rows.add_row(*(Text(visible(cell)) for cell in _cells(launch)))
    Console(highlight=False, soft_wrap=True, width=400).print(rows)


def _cells(launch: Launch) -> tuple[str, ...]:
    begun = launch.ready_at if launch.ready_at is not None else launch.launched_at
    lived = None if launch.ended_at is None else max(0.0, launch.ended_at - begun)
    why = "; ".join(w.rstrip(".") for w in (launch.reason, launch.remedy, launch.effect) if w)
    return (
        fmt.stamp(launch.launched_at, launch.launched_at),
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


COMMANDS = [launches]
