"""`eagle-tui phases`: the Phases screen without a screen."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from pathlib import Path

import click
from rich.console import Console
from rich.style import Style

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, rundir, width
from eagle_tui.cli.look import ask_any, ask_files, current
from eagle_tui.cli.tables import add, narrowed, table
from eagle_tui.client_api import ClientError, NotFound, RunClient
from eagle_tui.protocol import Estimate, PhaseStatus
from eagle_tui.records import PhaseRecord
from eagle_tui.report.estimates import first_against_now
from eagle_tui.text import visible

_HEADS = ("phase", "state", "-done", "-attempt", "-elapsed", "-left", "estimate", "why")


@click.command()
@RUN
@click.argument("phase", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a phase.")
def phases(run: Path, phase: str | None, as_json: bool) -> None:
    """The phases: how far, how long, and what was estimated. With PHASE all that is known of it:
    why it stands there, its output, from what it was made, and its attempts."""
    found = rundir(run)
    status = current(found)
    known = {item.name: item for item in status.phases}
    if phase is not None and phase not in known:
        raise NotFound(f"no phase is named {phase[:60]!r}; there are: {', '.join(known)}")
    wanted = [known[phase]] if phase else list(known.values())

    async def look(client: RunClient) -> list[Estimate]:
        return await client.estimates()

    try:
        estimates = ask_any(found, look)
    except ClientError:
        estimates = []  # of a run without history; what follows is told all the same
    records = {r.phase: r for r in ask_files(found, lambda files: files.phase_records())}
    if as_json:
        for item in wanted:
            click.echo(json.dumps(_body(item, records.get(item.name), estimates)))
    elif phase:
        for text in _all(known[phase], records.get(phase), estimates):
            click.echo(text)
    else:
        _table(wanted, estimates)


def _body(
    phase: PhaseStatus, record: PhaseRecord | None, estimates: list[Estimate]
) -> dict[str, object]:
    mine = [e.model_dump(mode="json") for e in estimates if e.phase == phase.name]
    kept = record.model_dump(mode="json", exclude={"phase"}) if record else {}
    return {**phase.model_dump(mode="json"), **kept, "estimates": mine}


def _table(wanted: list[PhaseStatus], estimates: list[Estimate]) -> None:
    lines = [
        (
            *(item.name, item.state, f"{fmt.progress(item.done, item.total)} {item.unit}".strip()),
            *(item.attempt or fmt.NONE, fmt.duration(item.elapsed_s), fmt.eta(item.eta_s)),
            *(first_against_now(item, estimates), item.reason),
        )
        for item in wanted
    ]
    heads, shown = narrowed(_HEADS, lines, width(), ("-attempt", "estimate", "-left"))
    rows = table(*heads)
    for line in shown:
        add(rows, *line)
    Console(highlight=False, soft_wrap=True, width=400).print(rows)


def _all(phase: PhaseStatus, record: PhaseRecord | None, estimates: list[Estimate]) -> list[str]:
    """The same lines as the screen's."""
    # Imported here: it comes with Textual, and only this needs it.
    from eagle_tui.ui.glyphs import glyph_set
    from eagle_tui.ui.palette import Palette
    from eagle_tui.ui.phase_lines import PhaseLines

    plain = Palette(**{field.name: Style() for field in fields(Palette)})
    writer = PhaseLines(plain, glyph_set("block"), time.time(), width() or 200)
    head = [f"{phase.name}  {phase.state}  {fmt.progress(phase.done, phase.total)} {phase.unit}"]
    lines = writer.all(phase, record, estimates)
    body = [visible("".join(part.text for part in line)).rstrip() for line in lines]
    return [visible(head[0].rstrip()), *body]


COMMANDS = [phases]
