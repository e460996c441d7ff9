"""Trying out `[notify]`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from eagle_tui.cli.common import RUN, Exit, rundir
from eagle_tui.clock import SystemClock
from eagle_tui.config import load_config
from eagle_tui.notices import Notice
from eagle_tui.notifier import message, send
from eagle_tui.text import visible

FAILED, USAGE = 1, 2


@click.command()
@RUN
def notify(run: Path) -> None:
    """Send a test notice as [notify] of run.toml says, and tell what came of it."""
    found = rundir(run)
    config = load_config(found.config)
    about = {"name": config.run.name, "dir": str(found.root), "target": config.target.model}
    test = Notice("alert", "info", "test", "this is a test: notices of this run arrive here")
    body = message(about, [test], SystemClock().wall())
    results = asyncio.run(send(found, config.notify, body))
    if not results:
        raise Exit(USAGE, f"{found.config}: [notify] has neither command nor url (docs/config.md)")
    for what, problem in results.items():
        click.echo(f"{what}: {visible(problem) or 'sent'}")
    if any(results.values()):
        raise Exit(FAILED)


COMMANDS = [notify]
