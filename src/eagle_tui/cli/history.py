"""`eagle-tui history` and `marks`: the charts without a screen."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import click

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, rundir
from eagle_tui.cli.look import ask_any
from eagle_tui.client_api import NotFound, RunClient
from eagle_tui.place import EXAMPLES, time_of
from eagle_tui.protocol import History, Mark
from eagle_tui.text import visible

POINTS = 60
"""Buckets when nothing is said about their size."""


@click.command()
@RUN
@click.argument("metric", required=False)
@click.option("--since", default="-1h", show_default=True, metavar="TIME", help=f"{EXAMPLES}.")
@click.option("--until", metavar="TIME", help="Without it: now, or the end of a run that is down.")
@click.option(
    "--step", type=click.FloatRange(min=1), metavar="S",
    help="Seconds of a bucket; without it: a sixtieth of the time.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As JSON, as the socket's /v1/history.")
def history(
    run: Path, metric: str | None, since: str, until: str | None, step: float | None,
    as_json: bool,
) -> None:  # fmt: skip
    """A metric over time, as the charts show it: a line per bucket with mean, low and high. Without
    METRIC: the names of all there are (docs/status.md says what each is)."""

    async def look(client: RunClient) -> tuple[list[str], History | None]:
        names = await client.series()
        if metric is None or metric not in names:
            return names, None
        # Of a run that is down, or was copied, the present is its last moment.
        now = (await client.status()).at
        begin, end = _time(since, now, "--since"), now
        if until is not None:
            end = _time(until, now, "--until")
        if begin >= end:
            raise click.UsageError("--since must be before --until")
        size = step or max((end - begin) / POINTS, 1.0)
        return names, await client.history(metric, begin, size, end)

    names, found = ask_any(rundir(run), look)
    if metric is None:
        for name in names:
            click.echo(visible(name))
    elif found is None:
        raise NotFound(f"no metric is named {metric[:80]!r}; `eagle-tui history RUN` names them")
    elif as_json:
        click.echo(json.dumps(found.model_dump(mode="json")))
    else:
        for point in found.points:
            at = datetime.fromtimestamp(point.t).isoformat(" ", "seconds")
            click.echo(f"{at}  {point.mean:.6g}  {point.low:.6g}  {point.high:.6g}")
        if not found.points:
            click.echo("nothing was recorded of it in that time", err=True)


@click.command()
@RUN
@click.option("--since", metavar="TIME", help=f"From there on: {EXAMPLES}.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def marks(run: Path, since: str | None, as_json: bool) -> None:
    """What the charts mark: pauses, retunes, crashes, phases, caps."""

    async def look(client: RunClient) -> list[Mark]:
        begin = 0.0
        if since is not None:
            begin = _time(since, (await client.status()).at, "--since")
        return await client.marks(begin)

    for mark in ask_any(rundir(run), look):
        if as_json:
            click.echo(json.dumps(mark.model_dump(mode="json")))
        else:
            at = fmt.stamp(mark.at, time.time())
            click.echo(visible(f"{at}  {mark.kind:<11}  {mark.text}").replace("\n", " "))


def _time(text: str, now: float, option: str) -> float:
    """Unix time of what was typed. Usage error for what is no time."""
    try:
        return time_of(text, now)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


COMMANDS = [history, marks]
