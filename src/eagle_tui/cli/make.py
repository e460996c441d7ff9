"""Making and starting runs: init, demo, up, check."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from eagle_tui.cli.common import RUN, SET, Exit, again, rundir
from eagle_tui.cli.headless import follow_to_the_end
from eagle_tui.cli.screen import Looks, looks_options, open_screen
from eagle_tui.client import SocketClient
from eagle_tui.config import ConfigError, load_config, parse_config
from eagle_tui.config.load import override, read_text
from eagle_tui.config.presets import PRESETS, preset_text
from eagle_tui.reach import ensure_supervisor, require_name
from eagle_tui.rundir import atomic
from eagle_tui.rundir.lookup import missing
from eagle_tui.rundir.paths import RunDir
from eagle_tui.text import visible

REFUSED = 3


def make_run(path: Path, preset: str, settings: tuple[str, ...]) -> RunDir:
    """A new run directory with its run.toml. Exit 3 when there is one already."""
    run = RunDir.at(path)
    require_name(run)
    if run.config.exists():
        raise Exit(REFUSED, f"{run.config} is there already; `eagle-tui up {run.root}` starts it")
    if run.accepted.exists():
        # Another run.toml would be laid over what was done by this one.
        load_config(run.config)
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
    click.echo(visible(f"{run.config}: made from preset {preset}."))
    click.echo(visible(f"Edit it, then: {again('check', run)} and {again('up', run)}"))


@click.command()
@RUN
def check(run: Path) -> None:
    """Check run.toml and that what it names is there: every problem at once, or a summary."""
    found = rundir(run)
    config = load_config(found.config)
    if problems := missing(config, found):
        raise ConfigError(str(found.config), problems)
    counted = f"{_number(config.dataset, 'dataset')}, {_number(config.server, 'server')}"
    click.echo(visible(f"{run}: fine; {counted}, phases {', '.join(config.run.phases)}"))


def _number(items: Sequence[object], what: str) -> str:
    """`1 server`, `2 servers`."""
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"


@click.command()
@RUN
@SET
@click.option("--detach", "-d", is_flag=True, help="Do not open the screen.")
@looks_options
def up(run: Path, settings: tuple[str, ...], detach: bool, looks: Looks) -> None:
    """Start the run, or go on with it, and open the screen on it."""
    found = rundir(run)
    if settings:
        text = override(read_text(found.config), settings)
        parse_config(text, source=str(found.config))
        atomic.write_text(found.config, text)
    for problem in missing(load_config(found.config), found):
        click.echo(visible(f"warning: {problem}"), err=True)
    if not ensure_supervisor(found, up=True):
        asyncio.run(_go_on(found))
    if detach or not sys.stdout.isatty():
        click.echo(visible(f"{found.root} is up. Look: {again('attach', found)}"))
        return
    open_screen(found, looks=looks)


async def _go_on(run: RunDir) -> None:
    """A supervisor runs already: tell it that the operator said `up` again."""
    async with SocketClient(run) as client:
        command = await client.command("up", {})
    if command.state == "refused":
        raise Exit(REFUSED, f"up refused: {command.reason}")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--headless", is_flag=True, help="Progress lines instead of the screen.")
@click.option("--keep", is_flag=True, help="With --headless: leave the supervisor running.")
@SET
@looks_options
def demo(
    directory: Path | None, headless: bool, keep: bool, settings: tuple[str, ...], looks: Looks
) -> None:
    """A small run for real, on this machine: our own tiny target, seven datasets."""
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="eagle-tui-demo-"))
    elif (directory / "run.toml").exists():
        click.echo(visible(f"{directory}: going on with the demo there"))
    run = RunDir.at(directory)
    if not run.config.exists():
        make_run(directory, "demo", settings)
    click.echo(visible(f"demo run: {run.root}"))
    if not ensure_supervisor(run, up=True):
        asyncio.run(_go_on(run))
    if headless:
        raise Exit(asyncio.run(follow_to_the_end(run, stop_after=not keep)))
    open_screen(run, looks=looks)


COMMANDS = [init, check, up, demo]
