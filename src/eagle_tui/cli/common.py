"""What the commands share."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from eagle_tui.client import SocketClient, ensure_supervisor, require_run
from eagle_tui.rundir.paths import RunDir

T = TypeVar("T")

RUN = click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
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


def rundir(path: Path) -> RunDir:
    """The run at `path`; NotARun when there is none."""
    run = RunDir.at(path)
    require_run(run)
    return run


def ask(run: RunDir, question: Callable[[SocketClient], Awaitable[T]]) -> T:
    """Ask the supervisor, which is started first if it was killed."""
    ensure_supervisor(run)

    async def once() -> T:
        async with SocketClient(run) as client:
            return await question(client)

    return asyncio.run(once())


def program() -> str:
    """How this program can be called again: by name, or by its path when it is not on PATH."""
    return "eagle-tui" if shutil.which("eagle-tui") else sys.argv[0]


def interactive() -> bool:
    """A person is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()
