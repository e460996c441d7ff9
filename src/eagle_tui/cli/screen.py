"""Opening the screen: on a live run (attach), and on one as it was (replay)."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from eagle_tui.cli.common import RUN, Exit, again, root, rundir
from eagle_tui.cli.look import at_end
from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError, RunClient
from eagle_tui.clock import SystemClock
from eagle_tui.config.ui import read_ui
from eagle_tui.place import EXAMPLES
from eagle_tui.protocol import Status
from eagle_tui.reach import Down, answers, ensure_supervisor, last_status
from eagle_tui.replay.timeline import FASTEST, ReplayClock, Timeline, parse_at
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.abilities import (
    COLOR_DEPTHS,
    ColorDepth,
    color_depth,
    default_theme,
    glyph_mode,
)
from eagle_tui.ui.glyphs import GlyphMode

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

FAILED, USAGE, NOT_FOUND = 1, 2, 4

MakeTimeline = Callable[[float, float], Timeline]


@dataclass(frozen=True)
class Looks:
    """How the screen is drawn, as given on the command line; None: as run.toml or the terminal
    says."""

    theme: str | None = None
    glyphs: GlyphMode | None = None
    color: ColorDepth | None = None
    mouse: bool = True

    def options(self, run: RunDir) -> dict[str, Any]:
        """As the application takes them."""
        section = read_ui(run.config)
        if self.color is not None:
            # What was asked for counts more, and Textual looks at this by itself.
            os.environ.pop("NO_COLOR", None)
        depth = color_depth(os.environ, self.color)
        return {
            "theme": self.theme or default_theme(depth, section.theme),
            "glyphs_mode": self.glyphs or glyph_mode(os.environ),
            "color": depth,
            "mouse": self.mouse,
            "title": section.title,
            "bell": section.bell,
        }


def looks_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of `Looks`, handed to the command as one argument `looks`."""

    @click.option("--theme", help="Theme by name, instead of the one in run.toml.")
    @click.option(
        "--color",
        type=click.Choice(COLOR_DEPTHS),
        help="Colours to use, instead of those that TERM, COLORTERM and NO_COLOR tell.",
    )
    @click.option(
        "--glyphs", type=click.Choice(get_args(GlyphMode)), help="Characters of the charts."
    )
    @click.option("--ascii", "glyphs", flag_value="ascii", help="The same as --glyphs ascii.")
    @click.option(
        "--no-mouse",
        "mouse",
        flag_value=False,
        default=True,
        help="Leave the mouse to the terminal, to select text with it.",
    )
    @functools.wraps(command)
    def with_looks(**given: Any) -> None:
        found = {field.name: given.pop(field.name) for field in fields(Looks)}
        command(**given, looks=Looks(**found))

    return with_looks


@click.command()
@RUN
@click.option("--readonly", is_flag=True, help="Look only: no key changes the run.")
@looks_options
def attach(run: Path, readonly: bool, looks: Looks) -> None:
    """Open the screen on a run. Leaving it (q) leaves the run going. A run that is down is shown
    as it stood; U starts it again."""
    found = rundir(run)
    try:
        ensure_supervisor(found)
    except Down:
        if not found.state.exists():
            raise
        need_terminal()
        can_go_on = not readonly and os.access(found.root, os.W_OK)
        if not show_past(found, looks, at_end, can_go_on=can_go_on):
            return
        ensure_supervisor(found, up=True)
    open_screen(found, readonly=readonly, looks=looks)


@click.command()
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--at",
    metavar="TIME",
    help=f"Begin there: {EXAMPLES} (before its end), or Unix seconds. Without it: at the start.",
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=FASTEST),
    default=60.0,
    show_default=True,
    help="Seconds of the run per second.",
)
@click.option("--still", is_flag=True, help="Do not run on by itself; space does.")
@looks_options
def replay(run: Path, at: str | None, speed: float, still: bool, looks: Looks) -> None:
    """Show a run as it was, in the same screens: a finished one, a copied one, or one that is
    going on. Nothing is written to its directory, and no order is taken."""
    found = root(run)
    if not found.state.is_file():
        raise Exit(NOT_FOUND, f"{found.root}: no state.sqlite there, so there is nothing to replay")

    def begin(start: float, end: float) -> Timeline:
        begins = start if at is None else parse_at(at, start, end)
        timeline = Timeline(SystemClock(), start, end, begins, speed)
        if not still:
            timeline.play()
        return timeline

    need_terminal()
    try:
        show_past(found, looks, begin, live=answers(found))
    except ValueError as error:
        raise Exit(USAGE, f"--at: {error}") from error


def show_past(
    run: RunDir,
    looks: Looks,
    make_timeline: MakeTimeline,
    *,
    live: bool = False,
    can_go_on: bool = False,
) -> bool:
    """Show a run as it was until the operator leaves; True when it is to be started again."""
    _start_quickly()
    from eagle_tui.replay.client import ReplayClient

    client = ReplayClient.open(run, make_timeline, live=live)
    from eagle_tui.ui.replay import GO_ON, ReplayApp

    clock = ReplayClock(SystemClock(), client.timeline)
    options = looks.options(run)
    app = ReplayApp(client, can_go_on=can_go_on, clock=clock, first=_first(client), **options)
    app.run()
    if app.return_code:
        raise Exit(FAILED, "the screen failed; what went wrong stands above")
    return app.wants == GO_ON


def open_screen(run: RunDir, *, readonly: bool = False, looks: Looks | None = None) -> None:
    """The screen, until the operator leaves it. Exit 2 where there is no terminal for it."""
    need_terminal()
    _start_quickly()
    # Imported here: Textual takes a moment, and most commands do without it.
    from eagle_tui.ui.app import EagleApp

    client = SocketClient(run, origin="screen")
    options = (looks or Looks()).options(run)
    app: EagleApp = EagleApp(client, readonly=readonly, first=_first(client), **options)
    app.run()
    if app.return_code:
        # What went wrong was printed by Textual when it gave the terminal back.
        raise Exit(
            FAILED, f"the screen failed, and nothing else; the run goes on: {again('attach', run)}"
        )
    after = last_status(run)
    if after is not None and after.supervisor.state == "stopped":
        click.echo(f"The run is down; `{again('up', run)}` goes on.")
    elif after is not None and any(alert.rule == "done" for alert in after.alerts):
        click.echo(f"Every phase is done. End its supervisor: {again('down', run)}")
    else:
        click.echo(f"Detached; the run goes on. Back: {again('attach', run)}")


def _first(client: RunClient) -> Status | None:
    """The run as it is, to be drawn at once; None when there is no answer: the screen says why."""

    async def look() -> Status:
        try:
            return await client.status()
        finally:
            if isinstance(client, SocketClient):
                await client.leave()  # a connection belongs to the loop in which it was made

    try:
        return asyncio.run(look())
    except ClientError:
        return None


def _start_quickly() -> None:
    """No garbage is looked for while the program is loaded, since there is none; the application
    turns it on again (`EagleApp.start`)."""
    gc.disable()


def need_terminal() -> None:
    """Exit 2 where there is no terminal to draw on."""
    # Textual reads from standard input and draws on standard error.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Exit(USAGE, "the screen needs a terminal; `eagle-tui status` does not")


COMMANDS = [attach, replay]
