"""What the commands share."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
from rich.cells import cell_len, chop_cells

from eagle_tui.client import SocketClient
from eagle_tui.reach import NotARun, ensure_supervisor, require_run
from eagle_tui.rundir.nearby import nearby
from eagle_tui.rundir.paths import RunDir

T = TypeVar("T")

RUN = click.argument(
    "run", type=click.Path(path_type=Path), metavar="[RUN]", required=False, default="."
)
"""The run of a command that only one is meant for: the current directory when none is named."""
SET = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change run.toml, for example --set generate.concurrency=64. May be repeated.",
)


class Exit(Exception):
    """End with a code and, if it is not empty, a sentence."""

    def __init__(self, code: int, sentence: str = "") -> None:
        super().__init__(sentence)
        self.code = code


NAMING = ("run.toml", "state.sqlite", "status.json")
"""Files by which people name a run."""


def root(path: str | Path) -> RunDir:
    """The directory that is meant by `path`, which may also be one of its best-known files."""
    path = Path(path)
    return RunDir.at(path.parent if path.name in NAMING else path)


def rundir(path: str | Path) -> RunDir:
    """The run at `path`. NotARun, with the runs nearby, when there is none."""
    run = root(path)
    try:
        require_run(run)
    except NotARun as error:
        runs = [near for near in nearby(run.root) if near != run.root]
        if runs and runs[0] in run.root.parents:
            raise NotARun(f"{run.root} is no run, but lies in one: {runs[0]}") from None
        near = f". Runs nearby: {', '.join(map(str, runs))}" if runs else ""
        raise NotARun(f"{error}{near}") from None
    return run


def ask(run: RunDir, question: Callable[[SocketClient], Awaitable[T]]) -> T:
    """Ask the supervisor, which is started first if it was killed."""
    ensure_supervisor(run)

    async def once() -> T:
        async with SocketClient(run) as client:
            return await question(client)

    return asyncio.run(once())


def program() -> list[str]:
    """How this program can be called again: by name, or as it was when that is not on PATH."""
    if shutil.which("eagle-tui"):
        return ["eagle-tui"]
    if Path(sys.argv[0]).name == "__main__.py":  # python -m eagle_tui
        return [sys.executable, "-m", "eagle_tui"]
    return [sys.argv[0]]


def again(verb: str, run: RunDir) -> str:
    """A command line to copy into a shell."""
    return shlex.join([*program(), verb, str(run.root)])


def width() -> int | None:
    """Columns to cut lines to: those of the terminal; None where whole lines are wanted, as in a
    file or a pager."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def cut(text: str, columns: int | None) -> str:
    """A line in at most so many cells; None: all of it."""
    if columns is None or cell_len(text) <= columns:
        return text
    return chop_cells(text, max(columns - 1, 1))[0] + "…"


def interactive() -> bool:
    """A person is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
