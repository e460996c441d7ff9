"""Asking a run whatever its state: a supervisor that runs, or the directory of one that is down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from eagle_tui import fmt
from eagle_tui.cli.common import ask
from eagle_tui.client_api import RunClient
from eagle_tui.clock import SystemClock
from eagle_tui.protocol import Status
from eagle_tui.reach import Down, NotYours, last_status
from eagle_tui.reader.files import RunFiles
from eagle_tui.replay.timeline import Timeline
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

if TYPE_CHECKING:
    from eagle_tui.replay.client import ReplayClient

T = TypeVar("T")


def at_end(start: float, end: float) -> Timeline:
    """The last moment of a run, standing."""
    return Timeline(SystemClock(), start, end, end)


def ask_past(run: RunDir, question: Callable[[ReplayClient], Awaitable[T]]) -> T:
    """Ask the run's directory as of its last moment. ClientError when nothing was recorded."""
    from eagle_tui.replay.client import ReplayClient  # here: few looks need it

    client = ReplayClient.open(run, at_end)

    async def once() -> T:
        try:
            return await question(client)
        finally:
            await client.close()

    return asyncio.run(once())


def ask_any(run: RunDir, question: Callable[[RunClient], Awaitable[T]]) -> T:
    """Ask the supervisor, started first if it was killed, or the directory when the run is down.
    Down when it was never started."""
    try:
        return ask(run, question)
    except Down:
        if not run.state.exists():
            raise
        return ask_past(run, question)


def ask_files(run: RunDir, question: Callable[[RunFiles], Awaitable[T]]) -> T:
    """Ask what stands in the run's files; nobody is started or asked for it."""

    async def once() -> T:
        files = RunFiles(run)
        try:
            return await question(files)
        finally:
            await files.close_files()

    return asyncio.run(once())


def current(run: RunDir) -> Status:
    """The status from the supervisor, or the last one that it left when the run is down."""

    async def look(client: RunClient) -> Status:
        return await client.status()

    try:
        return ask(run, look)
    except Down as error:
        before = last_status(run)
        if before is None:
            raise
        if isinstance(error, NotYours):
            told = f"{error}; as it was told at {fmt.clock(before.at)}"
            click.echo(f"eagle-tui: {visible(told)}", err=True)
            return before
        if before.supervisor.state == "stopped":
            return before
        # Nobody wrote that it ended: it was copied, or its machine died.
        gone = before.supervisor.model_copy(update={"state": "gone"})
        return before.model_copy(update={"supervisor": gone})
