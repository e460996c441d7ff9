"""`eagle-tui doctor`: what is there, what is lacking, and the exact line that mends it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from eagle_tui.cli.common import Exit, rundir
from eagle_tui.cli.doctor.findings import as_text, worst

TERMINAL = "terminal"
FAILED = 1


@click.command()
@click.argument("what", required=False, metavar="[terminal | RUN]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(what: str | None, as_json: bool) -> None:
    """What this machine has for a run, and what it lacks.

    With `terminal`: what this terminal and its tmux can show, with the line of configuration for
    each lack. With a RUN: also what its run.toml asks for. Ends with 1 when something does not
    work at all.
    """
    # Imported here: most commands do without these.
    from eagle_tui.cli.doctor import machine, terminal

    if what == TERMINAL:
        found = terminal.here()
    elif what is None:
        found = machine.machine(Path.cwd())
    else:
        run = rundir(Path(what))
        found = [*machine.machine(run.root), *machine.run(run)]
    if as_json:
        click.echo(json.dumps([item.to_json() for item in found], ensure_ascii=False, indent=2))
    else:
        for line in as_text(found):
            click.echo(line)
    if worst(found) == "bad":
        raise Exit(FAILED)


COMMANDS = [doctor]
