"""`eagle-tui events`: the Events screen without a screen. What happened, and what was ordered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, rundir
from eagle_tui.cli.headless import RETRY_S
from eagle_tui.cli.look import ask_any
from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError, RunClient
from eagle_tui.protocol import CommandStatus, Event, Severity
from eagle_tui.reach import Down, StartFailed, ensure_supervisor
from eagle_tui.records import JournalEntry, JournalMark, JournalQuery
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

POLL_S = 1.0
PAGE = 500
"""Entries fetched at once."""
LEVELS = ("warning", "error")


@click.command()
@RUN
@click.option("--follow", "-f", is_flag=True, help="Go on until interrupted.")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100_000), default=200, show_default=True,
    help="The newest N.",
)  # fmt: skip
@click.option("--level", type=click.Choice(LEVELS), help="Of this severity and above.")
@click.option("--search", default="", metavar="TEXT", help="Those that hold it; case is ignored.")
@click.option("--source", default="", metavar="NAME", help="Of this phase, server, operator, ….")
@click.option(
    "--commands", is_flag=True, help="Orders, too, with their ids and how far each of them is."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def events(
    run: Path, follow: bool, limit: int, level: Severity | None, search: str, source: str,
    commands: bool, as_json: bool,
) -> None:  # fmt: skip
    """What happened in the run, also of one that is down."""
    found = rundir(run)
    query = JournalQuery(severity=level, source=source, text=search, limit=PAGE)
    wanted = Wanted(query, commands)
    show = _json if as_json else _text

    async def stored(client: RunClient) -> tuple[Sequence[JournalEntry], JournalMark]:
        return await wanted.newest(client, limit)

    entries, after = ask_any(found, stored)
    for entry in entries:
        show(entry)
    if follow:
        ensure_supervisor(found)
        asyncio.run(_follow(found, wanted, after, show))


@dataclass(frozen=True)
class Wanted:
    """Which entries of the journal."""

    query: JournalQuery
    commands: bool

    def of(self, entries: Sequence[JournalEntry]) -> list[JournalEntry]:
        """Those that are wanted."""
        return [entry for entry in entries if self.commands or entry.event is not None]

    async def newest(
        self, client: RunClient, limit: int
    ) -> tuple[Sequence[JournalEntry], JournalMark]:
        """The newest `limit`, the oldest first, and the place from which newer ones come."""
        page = await client.journal(self.query)
        after, found = page.after, self.of(page.entries)
        while not page.done and len(found) < limit:
            page = await client.journal(self.query.model_copy(update={"before": page.before}))
            found = [*self.of(page.entries), *found]
        return found[-limit:], after


async def _follow(
    run: RunDir, wanted: Wanted, after: JournalMark, show: Callable[[JournalEntry], None]
) -> None:
    """Until interrupted, or until the run is down (which raises Down)."""
    async with SocketClient(run) as client:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                page = await client.journal(wanted.query.model_copy(update={"after": after}))
            except (Down, StartFailed):
                raise
            except ClientError as error:
                click.echo(visible(str(error)), err=True)
                await asyncio.sleep(RETRY_S)
                continue
            after = page.after
            for entry in wanted.of(page.entries):
                show(entry)


def _json(entry: JournalEntry) -> None:
    body = entry.event or entry.command
    assert body is not None
    click.echo(json.dumps(body.model_dump(mode="json")))


def _text(entry: JournalEntry) -> None:
    if entry.event is not None:
        click.echo(event_line(entry.event, time.time()))
    elif entry.command is not None:
        click.echo(command_line(entry.command, time.time()))


def event_line(event: Event, now: float) -> str:
    """One event as a line of text; its day is told when it is not that of Unix time `now`."""
    at = fmt.stamp(event.at, now)
    return visible(f"{at} {event.severity:<7} {event.source}: {event.text}").replace("\n", " ")


def command_line(command: CommandStatus, now: float) -> str:
    """One order as a line of text: what, by whom, how far, and its id, which `undo` takes."""
    # Imported here: it comes with Textual, and only orders need it.
    from eagle_tui.ui.journal import command_text, steps

    at = fmt.stamp(command.at, now)
    what = command_text(command.verb, command.args)
    more = command.reason or command.sentence
    text = f"{at} order   {command.origin or 'operator'}: {what}{f': {more}' if more else ''}"
    undo = "; can be taken back" if command.undo else ""
    return visible(f"{text} [{steps(command, now)}; id {command.id}{undo}]").replace("\n", " ")


COMMANDS = [events]
