"""Making and starting runs: init, demo, up, attach, check."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import click

from eagle_tui.cli.common import RUN, SET, Exit, program, rundir
from eagle_tui.cli.headless import follow_to_the_end
from eagle_tui.client import SocketClient, ensure_supervisor, last_status
from eagle_tui.config import ConfigError, load_config, parse_config
from eagle_tui.config.load import override, read_text
from eagle_tui.config.presets import PRESETS, preset_text
from eagle_tui.rundir import atomic
from eagle_tui.rundir.lookup import missing
from eagle_tui.rundir.paths import RunDir

USAGE, REFUSED, NOT_FOUND = 2, 3, 4


def make_run(path: Path, preset: str, settings: tuple[str, ...]) -> RunDir:
    """A new run directory with its run.toml. Exit 3 when there is one already."""
    run = RunDir.at(path)
    if run.config.exists():
        raise Exit(REFUSED, f"{run.config} is there already; `eagle-tui up {run.root}` starts it")
    text = override(preset_text(preset, run.root.name), settings)
    parse_config(text, source=f"preset {preset}")
    run.root.mkdir(parents=True, exist_ok=True)
    if preset == "demo":
        _demo_data(run)
    atomic.write_text(run.config, text)
    return run


def _demo_data(run: RunDir) -> None:
    """The demo's datasets, written by the pipeline in a process of its own."""
    argv = [sys.executable, "-m", "eagle_tui.pipeline.demo", str(run.root / "data")]
    made = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL)
    if made.returncode:
        raise Exit(1, "the demo's data could not be made; is the [pipeline] extra installed?")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--preset", type=click.Choice(PRESETS), default="demo", show_default=True)
@SET
def init(directory: Path, preset: str, settings: tuple[str, ...]) -> None:
    """Make a run directory with a run.toml to edit."""
    run = make_run(directory, preset, settings)
    click.echo(f"{run.config}: made from preset {preset}.")
    click.echo(f"Edit it, then: {program()} check {run.root} and {program()} up {run.root}")


@click.command()
@RUN
def check(run: Path) -> None:
    """Check run.toml and that what it names is there: every problem at once, or a summary."""
    found = rundir(run)
    config = load_config(found.config)
    if problems := missing(config, found):
        raise ConfigError(str(found.config), problems)
    click.echo(
        f"{run}: fine; {len(config.dataset)} datasets, {len(config.server)} servers, phases "
        f"{', '.join(config.run.phases)}"
    )


@click.command()
@RUN
@SET
@click.option("--detach", "-d", is_flag=True, help="Do not open the screen.")
def up(run: Path, settings: tuple[str, ...], detach: bool) -> None:
    """Start the run, or go on with it, and open the screen on it."""
    found = rundir(run)
    if settings:
        text = override(read_text(found.config), settings)
        parse_config(text, source=str(found.config))
        atomic.write_text(found.config, text)
    for problem in missing(load_config(found.config), found):
        click.echo(f"warning: {problem}", err=True)
    if not ensure_supervisor(found, up=True):
        asyncio.run(_go_on(found))
    if detach or not sys.stdout.isatty():
        click.echo(f"{found.root} is up. Look: {program()} attach {found.root}")
        return
    open_screen(found)


async def _go_on(run: RunDir) -> None:
    """A supervisor runs already: tell it that the operator said `up` again."""
    async with SocketClient(run) as client:
        command = await client.command("up", {})
    if command.state == "refused":
        raise Exit(REFUSED, f"up refused: {command.reason}")


@click.command()
@RUN
@click.option("--readonly", is_flag=True, help="Look only: no key changes the run.")
@click.option("--theme", help="Theme by name, instead of the one in run.toml.")
@click.option(
    "--glyphs", type=click.Choice(["braille", "block", "ascii"]), help="Characters of the charts."
)
def attach(
    run: Path,
    readonly: bool,
    theme: str | None,
    glyphs: Literal["braille", "block", "ascii"] | None,
) -> None:
    """Open the screen on a run. Leaving it (q) leaves the run going."""
    found = rundir(run)
    ensure_supervisor(found)
    open_screen(found, readonly=readonly, theme=theme, glyphs=glyphs)


def open_screen(
    run: RunDir,
    *,
    readonly: bool = False,
    theme: str | None = None,
    glyphs: Literal["braille", "block", "ascii"] | None = None,
) -> None:
    """The screen, until the operator leaves it. Exit 2 where there is no terminal for it."""
    # Textual reads from standard input and draws on standard error.
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Exit(USAGE, "the screen needs a terminal; `eagle-tui status` does not")
    # Imported here: Textual takes a moment, and most commands do without it.
    from eagle_tui.ui.app import EagleApp

    config = load_config(run.config)
    EagleApp(
        SocketClient(run, origin="screen"),
        readonly=readonly,
        theme=theme or config.ui.theme,
        glyphs_mode=glyphs or ("braille" if _speaks_unicode() else "ascii"),
    ).run()
    after = last_status(run)
    if after is not None and after.supervisor.state == "stopped":
        click.echo(f"The run is down; `{program()} up {run.root}` goes on.")
    elif after is not None and any(alert.rule == "done" for alert in after.alerts):
        click.echo(f"Every phase is done. End its supervisor: {program()} down {run.root}")
    else:
        click.echo(f"Detached; the run goes on. Back: {program()} attach {run.root}")


def _speaks_unicode() -> bool:
    """Whether the locale's encoding holds the characters that charts are drawn with."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--headless", is_flag=True, help="Progress lines instead of the screen.")
@click.option("--keep", is_flag=True, help="With --headless: leave the supervisor running.")
@SET
def demo(directory: Path | None, headless: bool, keep: bool, settings: tuple[str, ...]) -> None:
    """A small run for real, on this machine: our own tiny target, six datasets."""
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="eagle-tui-demo-"))
    elif (directory / "run.toml").exists():
        click.echo(f"{directory}: going on with the demo there")
    run = RunDir.at(directory)
    if not run.config.exists():
        make_run(directory, "demo", settings)
    click.echo(f"demo run: {run.root}")
    if not ensure_supervisor(run, up=True):
        asyncio.run(_go_on(run))
    if headless:
        raise Exit(asyncio.run(follow_to_the_end(run, stop_after=not keep)))
    open_screen(run)


COMMANDS = [init, check, up, attach, demo]
