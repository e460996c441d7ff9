"""What run.toml names and is not there, or must not be started so: looked at before a run, not when
a worker dies of it."""

from __future__ import annotations

import os
import shutil

from eagle_tui.config.command import command_line
from eagle_tui.config.later import refused_later
from eagle_tui.config.model import RunConfig
from eagle_tui.config.speculation import command_fault
from eagle_tui.config.target import NoSuchModel, model_location, path_of
from eagle_tui.rundir.manifest import source_path
from eagle_tui.rundir.paths import RunDir


def missing(config: RunConfig, run: RunDir) -> list[str]:
    """A sentence for each file, directory or program that is named and not there, and for each
    thing that a later phase will not be able to do."""
    found: list[str] = []
    try:
        model_location(config.target.model, run.root)
    except NoSuchModel as error:
        found.append(str(error))
    else:
        found += _faults(config, run)
    if config.target.chat_template:
        template = path_of(config.target.chat_template, run.root)
        if not template.is_file():
            found.append(f"target.chat_template: there is no file {template}")
    for server in config.server:
        if server.command and shutil.which(server.command[0]) is None:
            found.append(
                f"server {server.name}: command: there is no program {server.command[0]!r}"
            )
    hook = config.notify.command
    if hook and not _program(hook[0], run):
        found.append(f"notify.command: there is no program {hook[0]!r}")
    for dataset in config.dataset:
        path = source_path(run, dataset)
        if path is not None and not os.path.exists(path):  # noqa: PTH110 - it raises nothing
            found.append(f"dataset {dataset.name}: source: there is no file {path}")
    return [*found, *refused_later(config)]


def _faults(config: RunConfig, run: RunDir) -> list[str]:
    """Servers that must not be started as they are."""
    ours = [server for server in config.server if server.command]
    told = [(s.name, command_fault(command_line(config, s, run.root, 0), run.root)) for s in ours]
    return [f"server {name}: {fault}" for name, fault in told if fault]


def _program(name: str, run: RunDir) -> bool:
    """Whether that can be started in the run directory."""
    return shutil.which(str(run.root / name) if "/" in name else name) is not None
