"""Handing a server its API keys: a file that only its owner can read, there for the start alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from eagle_tui.config.command import keys_path, keys_wanted
from eagle_tui.config.model import FlagValue, ServerSection
from eagle_tui.rundir import atomic


class NoKey(OSError):
    """A server cannot start: a key that run.toml names is not there; the message says which."""


def find(
    section: ServerSection,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The keys that a server is to have, by flag. NoKey: a variable is not set, or holds none."""
    found: dict[str, str] = {}
    for flag, name in keys_wanted(section, section.flags if flags is None else flags).items():
        key = environ.get(name, "")
        if not key:
            raise NoKey(
                f"the environment variable {name}, which shall hold the {flag} of "
                f"[[server]] {section.name}, is not set where the run was brought up"
            )
        if key.startswith("-"):
            raise NoKey(f"the key in {name} begins with a dash, which a server takes for a flag")
        found[flag] = key
    return found


def hand_over(
    root: Path,
    section: ServerSection,
    log: Path,
    flags: Mapping[str, FlagValue] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Before a server is started by `config.command.command_line`, with the same `root` and
    `flags`: write its keys where it reads them. Its log is made readable for its owner alone, since
    SGLang writes all its arguments there. NoKey: as of `find`; OSError: cannot be written."""
    keys = find(section, flags, environ)
    if not keys:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch(mode=0o600)
    if section.engine == "sglang":
        # JSON is YAML, too, and quotes whatever a key may hold.
        take_back(root, section)
        atomic.write_text(keys_path(root, section), json.dumps(keys) + "\n", mode=0o600)


def take_back(root: Path, section: ServerSection) -> None:
    """The server has read its keys, or will never: nothing is left lying about."""
    keys_path(root, section).unlink(missing_ok=True)
