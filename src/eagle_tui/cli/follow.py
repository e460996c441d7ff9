"""Looking at a run without a screen: status, watch, report."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, Exit, interactive, rundir
from eagle_tui.cli.headless import follow_to_the_end
from eagle_tui.cli.look import ask_any, current
from eagle_tui.cli.screen import open_screen
from eagle_tui.cli.tables import add, table
from eagle_tui.client_api import RunClient
from eagle_tui.protocol import Estimate, Status
from eagle_tui.reach import ensure_supervisor
from eagle_tui.report.plan import Facts, plan_markdown
from eagle_tui.report.status import status_markdown
from eagle_tui.rundir.reports import write_plan
from eagle_tui.text import visible

POLL_S = 1.0
FOLLOWED = 2000
"""Events fetched at once while following."""


def render(status: Status, console: Console) -> None:
    """The status as a person reads it."""
    run = status.run
    console.print(
        Text(
            visible(
                f"{run.name}  {run.target}  {status.supervisor.state}  "
                f"elapsed {fmt.elapsed(run.elapsed_s, run.down_s)}  "
                f"left {fmt.eta_finish(run.eta_s, status.at)}"
                f"{fmt.beside(run.eta_without) if run.eta_s else ''}"
            )
        )
    )
    for alert in status.alerts:
        remedy = f" ({alert.remedy})" if alert.remedy else ""
        console.print(Text(visible(f"{alert.severity}: {alert.sentence}{remedy}")))
    phases = table("phase", "state", "-done", "-elapsed", "-left", "why")
    for p in status.phases:
        done, ended = fmt.progress(p.done, p.total), p.last_exit
        bad = ended is not None and ended.outcome not in ("done", "stopped")
        why = "; ".join(word for word in (p.reason, ended.words if bad and ended else "") if word)
        add(phases, p.name, p.state, done, fmt.duration(p.elapsed_s), fmt.eta(p.eta_s), why)
    console.print(phases)
    heads = ("-done", "-trunc", "-failed", "-tokens", "-cap", "-/min", "-mean", "-p95", "-left")
    data = table("dataset", "state", *heads)
    together = [status.total] if status.total else []
    for d in (*status.datasets, *together):
        add(
            data,
            *(d.name, d.state, fmt.progress(d.done, d.prompts), d.truncated),
            *(
                d.failed + d.no_answer + d.loop,
                fmt.count(d.tokens),
                fmt.caps(d.cap_tokens, d.cap_samples),
            ),
            *(fmt.rate(d.rate_per_min), fmt.count(d.tokens_mean), fmt.count(d.tokens_p95)),
            fmt.eta(d.eta_s),
        )
    console.print(data)
    servers = table("server", "state", "-tok/s", "-running", "-queued", "-KV", "why")
    for s in status.servers:
        kv = fmt.percent(s.kv_usage)
        running = "–" if s.running is None else s.running
        queued = "–" if s.queued is None else s.queued
        add(servers, s.name, s.state, fmt.rate(s.tok_s), running, queued, kv, s.reason)
    console.print(servers)
    _machine(status, console)


def _machine(status: Status, console: Console) -> None:
    """The GPUs, and the host in a line."""
    if status.gpus:
        heads = ("GPU", "-util", "-memory GiB", "-power", "-temp", "note")
        gpus = table(*heads)
        for g in status.gpus:
            power = f"{g.power_w:.0f} W" if fmt.known(g.power_w) else fmt.NONE
            heat = f"{g.temp_c:.0f} °C" if fmt.known(g.temp_c) else fmt.NONE
            memory = f"{fmt.gib(g.mem_used)}/{fmt.gib(g.mem_total)}"
            note = g.state if g.state != "ok" else g.throttle or ""
            add(gpus, f"{g.index} {g.name}", fmt.percent(g.util), memory, power, heat, note)
        console.print(gpus)
    host = status.host
    words = [f"CPU {fmt.percent(host.cpu)}", f"memory {fmt.percent(host.mem)}"]
    words.append(f"disk {fmt.size(host.disk_free)} free")
    words += [host.gpu_note] if host.gpu_note else []
    console.print(Text(visible("host  " + "  ".join(words))))


@click.command()
@RUN
@click.option("--json", "form", flag_value="json", help="As JSON (docs/status.md).")
@click.option("--markdown", "form", flag_value="markdown", help="As Markdown tables.")
def status(run: Path, form: str | None) -> None:
    """How the run stands, also of one that is down."""
    found = rundir(run)
    now = current(found)
    if form == "json":
        click.echo(json.dumps(now.to_json(), indent=2))
    elif form == "markdown":
        click.echo(status_markdown(now, ask_any(found, _estimates)), nl=False)
    else:
        # Lines are never folded: a terminal does that itself, and a script wants them whole.
        render(now, Console(highlight=False, soft_wrap=True, width=400))


async def _estimates(client: RunClient) -> list[Estimate]:
    return await client.estimates()


@click.command()
@RUN
@click.option("--plain", is_flag=True, help="Lines, also in a terminal.")
@click.option(
    "--every",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Least seconds between two lines about the same phase's progress.",
)
def watch(run: Path, plain: bool, every: float) -> None:
    """Follow the run: a line only when something changed, until every phase is done (exit code 0)
    or one has failed (1). In a terminal, without --plain: the screen, read-only."""
    found = rundir(run)
    ensure_supervisor(found)
    if not plain and interactive():
        open_screen(found, readonly=True)
        return
    raise Exit(asyncio.run(follow_to_the_end(found, every_s=every)))


@click.command()
@RUN
@click.option("--stdout", is_flag=True, help="Print it instead of writing it into RUN/reports/.")
def report(run: Path, stdout: bool) -> None:
    """Write a plan document: how the run stands, estimates against actuals, what was changed."""
    found = rundir(run)

    async def collect(client: RunClient) -> Facts:
        return Facts(
            await client.status(),
            await client.estimates(),
            await client.marks(0.0),
            await client.launches(),
        )

    facts = ask_any(found, collect)
    # What a run that is down says of itself is in its last snapshot.
    facts = replace(facts, status=current(found))
    text = plan_markdown(facts)
    if stdout:
        click.echo(text, nl=False)
    else:
        click.echo(f"{write_plan(found, text, facts.status.at)}")


COMMANDS = [status, watch, report]
