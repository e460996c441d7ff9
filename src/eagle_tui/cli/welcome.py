"""What `eagle-tui` alone says: where you are, and what to do next."""

from __future__ import annotations

from pathlib import Path

from eagle_tui.client_api import ClientError
from eagle_tui.reach import last_status
from eagle_tui.rundir.nearby import is_run, nearby
from eagle_tui.rundir.paths import RunDir

_EVERYTHING = "Every command: eagle-tui --help. What this machine lacks: eagle-tui doctor"
NOT_STARTED = "not started yet"


def lines(here: Path) -> list[str]:
    """For a directory that is a run, one near runs, and one that knows of none."""
    runs = [here] if is_run(here) else nearby(here)
    if runs and (runs[0] == here or runs[0] in here.parents):
        where = "This is" if runs[0] == here else "This lies in"
        return [f"{where} the run {runs[0]} ({state(runs[0])}).", _command(runs[0]), _EVERYTHING]
    if runs:
        found = [f"{_command(run)}   ({state(run)})" for run in runs]
        return ["Runs near here:", *found, "A new one: eagle-tui init DIRECTORY", _EVERYTHING]
    return [
        "There is no run here. To see what this program does, on any machine:",
        "  eagle-tui demo",
        "To begin your own:",
        "  eagle-tui init RUN --preset kimi-k2.5-8gpu   makes a directory with a run.toml to edit",
        "  eagle-tui check RUN                          names everything that is wrong in it",
        "  eagle-tui up RUN                             starts it and opens the screen",
        "To come back to one that runs:",
        "  eagle-tui attach RUN",
        _EVERYTHING,
    ]


def state(run: Path) -> str:
    """How a run stood when its supervisor last said so, in a few words."""
    try:
        status = last_status(RunDir.at(run))
    except (ClientError, OSError):
        return "its last status cannot be read"
    if status is None:
        return NOT_STARTED
    if status.supervisor.state == "stopped":
        return "down"
    running = [phase.name for phase in status.phases if phase.state == "running"]
    return f"{' and '.join(running)} running" if running else "up"


def _command(run: Path) -> str:
    """What one would do with it."""
    return f"  eagle-tui {'up' if state(run) == NOT_STARTED else 'attach'} {run}"
