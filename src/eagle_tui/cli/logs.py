"""`eagle-tui logs`: the Logs screen without a screen. Which logs there are, and rows of them.

Rows are read in blocks by the same reader as the screen's (`reader/logs.py`): the end of a log of
any size is shown at once, and no file is ever held whole.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, rundir
from eagle_tui.cli.look import ask_files
from eagle_tui.client_api import NotFound
from eagle_tui.place import EXAMPLES, share_of, time_of
from eagle_tui.reader.files import RunFiles
from eagle_tui.records import LogFile, LogLevel, LogLine, LogQuery
from eagle_tui.rundir.paths import PHASE_DIRS
from eagle_tui.ui.wrap import safe_line

POLL_S = 1.0
PAGE = 1000
"""Rows of one look."""
LEVELS = ("warning", "error")
_ATTEMPT = re.compile(r"(.+)-(\d{4,})\.log")


@dataclass(frozen=True)
class Wanted:
    """Which logs are meant."""

    name: str | None = None
    owner: str | None = None
    """The beginning of a log's name before its attempt: a phase, `server-NAME`, `supervisor`."""
    attempt: int | None = None

    @property
    def given(self) -> bool:
        """Whether any log was named."""
        return self != Wanted()

    def pick(self, files: Sequence[LogFile]) -> list[LogFile]:
        """Those that are meant, the one written last first. NotFound when there is none."""
        found = [file for file in files if self._takes(file.name)]
        if not found:
            there = ", ".join(sorted(file.name for file in files)) or "none"
            raise NotFound(f"no log is {self.words}; there are: {there}")
        return found

    def newest(self, files: Sequence[LogFile]) -> LogFile:
        """The one to show: of the last attempt, else the one written last."""
        found = self.pick(files)
        if self.owner is None:
            return found[0]
        return max(found, key=lambda file: (split(file.name)[1], file.modified))

    def _takes(self, name: str) -> bool:
        owner, attempt = split(name)
        return (
            self.name in (None, name, name.removesuffix(".log"))
            and self.owner in (None, owner)
            and self.attempt in (None, attempt)
        )

    @property
    def words(self) -> str:
        """What was asked for, for a sentence."""
        if not self.given:
            return "there"
        of = f"of {self.owner}" if self.owner else ""
        number = "" if self.attempt is None else f"of attempt {self.attempt}"
        return " ".join(part for part in (repr(self.name) if self.name else "", of, number) if part)


def split(name: str) -> tuple[str, int]:
    """`server-main-0003.log` → (`server-main`, 3); another file → (its name, 0)."""
    match = _ATTEMPT.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, 0)


def _one_of(**given: str | bool | None) -> None:
    named = [f"--{name}" for name, value in given.items() if value]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)}: name one process")


@click.command()
@RUN
@click.argument("log", required=False)
@click.option("--phase", type=click.Choice(list(PHASE_DIRS)), help="Of this phase's worker.")
@click.option("--server", metavar="NAME", help="Of this server.")
@click.option("--supervisor", is_flag=True, help="Of the supervisor.")
@click.option("--attempt", type=click.IntRange(1), help="This attempt; without it: the last one.")
@click.option(
    "-n", "rows", type=click.IntRange(1, 1_000_000), default=100, show_default=True,
    help="Rows: the last ones, or with --at the first ones from there.",
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="Every row, from the first one on.")
@click.option("--at", "place", metavar="PLACE", help=f"From there on: {EXAMPLES}.")
@click.option("--level", type=click.Choice(LEVELS), help="Rows of this level and above.")
@click.option("--search", default="", metavar="TEXT", help="Rows that hold it; case is ignored.")
@click.option("--follow", "-f", is_flag=True, help="Go along with it until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def logs(
    run: Path, log: str | None, phase: str | None, server: str | None, supervisor: bool,
    attempt: int | None, rows: int, every: bool, place: str | None, level: LogLevel | None,
    search: str, follow: bool, as_json: bool,
) -> None:  # fmt: skip
    """What the processes of the run wrote. Without LOG or an option that names one: which logs
    there are; with --search or --level: the rows of all of them that hold it."""
    _one_of(phase=phase, server=server, supervisor=supervisor)
    if place is not None and (every or follow):
        raise click.UsageError("--at goes to a place; --all and --follow do not")
    owner = phase or (f"server-{server}" if server else None) or ("supervisor" * supervisor or None)
    wanted = Wanted(log, owner, attempt)
    look = Look(rows=None if every else rows, place=place, level=level, search=search)
    show = _json if as_json else _text

    async def task(files: RunFiles) -> None:
        there = await files.log_files()
        if follow:
            await _follow(files, wanted, look, show)
        elif wanted.given or every or place is not None:
            await look.print(files, wanted.newest(there).name, show)
        elif search or level:
            await _everywhere(files, there, look, show)
        else:
            _list(there, as_json=as_json)

    ask_files(rundir(run), task)


def _list(there: Sequence[LogFile], *, as_json: bool) -> None:
    now = time.time()
    for file in there:
        if as_json:
            click.echo(json.dumps(file.model_dump(mode="json")))
        else:
            when = f"{fmt.moment(file.modified, now):<9}"
            click.echo(safe_line(f"{when}  {fmt.size(file.size):>9}  {file.name}"))
    if not there:
        click.echo("no process has written a log yet", err=True)


Show = Callable[[str, LogLine], None]


def _text(_name: str, line: LogLine) -> None:
    click.echo(safe_line(line.text))


def _json(name: str, line: LogLine) -> None:
    click.echo(json.dumps({"log": name, **line.model_dump(mode="json")}))


@dataclass(frozen=True)
class Look:
    """Which rows of a log."""

    rows: int | None = 100
    """How many; None: all."""
    place: str | None = None
    level: LogLevel | None = None
    search: str = ""

    def query(self, name: str, **where: object) -> LogQuery:
        """For one look at a log of that name."""
        parts = {"name": name, "level": self.level, "text": self.search, "rows": PAGE, **where}
        return LogQuery.model_validate(parts)

    async def print(self, files: RunFiles, name: str, show: Show) -> None:
        """Show them."""
        if self.rows is not None and self.place is None:
            for line in (await self.last(files, name))[0]:
                show(name, line)
            return
        at, done, left = 0, False, self.rows
        if self.place is not None:
            at = await _byte_of(files, name, self.place)
        while not done and left != 0:
            page = await files.log_page(self.query(name, at=at))
            for line in page.lines[:left]:
                show(name, line)
            left = None if left is None else max(left - len(page.lines), 0)
            at, done = page.end, page.done

    async def last(self, files: RunFiles, name: str) -> tuple[list[LogLine], int]:
        """The last rows, and the byte after the last whole one."""
        found: list[LogLine] = []
        at: int | None = None
        end, rows = 0, self.rows or PAGE
        while True:
            need = min(rows - len(found), PAGE)
            page = await files.log_page(self.query(name, at=at, backward=True, rows=need))
            found = [*page.lines, *found]
            end = page.end if at is None else end
            at = page.start
            if page.done or len(found) >= rows:
                return found, end


async def _byte_of(files: RunFiles, name: str, place: str) -> int:
    """The byte of a share or a time of the log. Usage error for what is neither."""
    try:
        share = share_of(place)
        at = None if share is not None else time_of(place, time.time())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--at") from error
    if share is not None:
        size = next(file.size for file in await files.log_files() if file.name == name)
        return int(size * share)
    assert at is not None
    found = await files.log_at(name, at)
    if found is None:
        raise NotFound(f"{name}: no times stand in this log, so {place!r} is nowhere in it")
    return found


async def _everywhere(files: RunFiles, there: Sequence[LogFile], look: Look, show: Show) -> None:
    """The last rows of each log that hold what is looked for, the log written last at the end."""
    for file in reversed(there):
        lines, _ = await look.last(files, file.name)
        if lines and show is _text:
            click.echo(f"==> {safe_line(file.name)} <==")
        for line in lines:
            show(file.name, line)


async def _follow(files: RunFiles, wanted: Wanted, look: Look, show: Show) -> None:
    """The end of a log, and what is written then; of the next attempt, too, when that begins."""
    name, end = "", 0
    while True:
        there = await files.log_files()
        newest = wanted.newest(there).name if wanted.given or not name else name
        if newest != name:
            if name and show is _text:
                click.echo(f"==> {safe_line(newest)} <==")
            if not name:
                shown, end = await look.last(files, newest)
                for line in shown:
                    if line.offset < end:
                        show(newest, line)
            else:
                end = 0
            name = newest
        page = await files.log_page(look.query(name, at=end))
        if page.size < end:
            click.echo(f"{safe_line(name)} was cut short; from its beginning:", err=True)
            end = 0
            continue
        for line in page.lines:
            # A row without its end comes again, whole, at a later look.
            if line.offset < page.end:
                show(name, line)
        end = page.end
        if page.done:
            await asyncio.sleep(POLL_S)


COMMANDS = [logs]
