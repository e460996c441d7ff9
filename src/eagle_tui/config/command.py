"""The argument list that starts a server of run.toml.

Keys never stand in it, since everybody on the machine can read argument lists. SGLang reads them
from a file (`--config`) that `rundir.keys` writes for the start and takes away after it; the
embedded engine takes them from the environment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from eagle_tui.config.model import FlagValue, RunConfig, ServerSection
from eagle_tui.config.target import model_location

SGLANG_ENV = {
    # Diagnostic waits of a minute in which clients hang and memory is held; we look ourselves.
    "SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0",
    "SGLANG_PYSPY_DUMP_BEFORE_CRASH": "0",
    # Children's titles then do not overwrite their environment, by which they are found.
    "SPT_NOENV": "1",
}
TRUE = ("true", "on", "yes")
FALSE = ("false", "off", "no")
"""How an operator sets a switch."""


def retuned(
    flags: Mapping[str, FlagValue], tuned: Mapping[str, str | None]
) -> dict[str, FlagValue]:
    """Flags of run.toml, with dashes, and over them what was retuned (`desired.tuned`)."""
    found = {name.replace("_", "-"): value for name, value in flags.items()}
    for name, value in tuned.items():
        before = found.pop(name, None)
        if value is None or value.lower() in FALSE:
            continue
        if value.lower() in TRUE:
            found[name] = True
        else:
            found[name] = value.split() if isinstance(before, list) else value
    return found


def flag_words(flags: Mapping[str, FlagValue]) -> list[str]:
    """`{"tp": 2, "enable-metrics": True}` → `--tp 2 --enable-metrics`; false leaves a flag out."""
    words: list[str] = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [flag, *map(str, value)]
        elif value is not False:
            words += [flag, str(value)]
    return words


def server_environment(section: ServerSection) -> dict[str, str]:
    """What a server's environment has more than ours."""
    # What lies in the run directory, where it works, must not be imported.
    env = {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    if section.engine == "sglang":
        env |= SGLANG_ENV
    if section.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, section.gpus))
    return env | section.env


def keys_path(root: Path, section: ServerSection) -> Path:
    """The file by which a server's keys are handed to it. SGLang wants that ending."""
    return root / f".{section.name}.keys.yaml"


def keys_wanted(section: ServerSection, flags: Mapping[str, FlagValue]) -> dict[str, str]:
    """Flags whose values are keys, with the environment variables that hold these: those that are
    not given in plain text among `flags`, or in a configuration file of the operator's own."""
    given = {name.replace("_", "-") for name in flags}
    own_file = any(word.partition("=")[0] == "--config" for word in section.command)
    if section.url or own_file or "config" in given:
        return {}
    named = {"api-key": section.api_key_env, "admin-api-key": section.admin_api_key_env}
    return {flag: env for flag, env in named.items() if env and flag not in given}


def command_line(
    config: RunConfig,
    section: ServerSection,
    root: Path,
    port: int,
    flags: Mapping[str, FlagValue] | None = None,
) -> list[str]:
    """The argument list; no shell ever sees it. `flags` come instead of those of the section.
    NoSuchModel when the target is not there."""
    embedded = section.engine == "embedded"
    words = [sys.executable, "-m", "eagle_tui.pipeline.engine"] if embedded else section.command
    words = list(words)
    model_flag = "--model" if embedded else "--model-path"
    for mark, flag, value in (
        ("{model}", model_flag, model_location(config.target.model, root)),
        ("{host}", "--host", section.host),
        ("{port}", "--port", str(port)),
    ):
        if any(mark in word for word in words):
            words = [word.replace(mark, value) for word in words]
        else:
            words += [flag, value]
    if config.target.trust_remote_code and not embedded:
        words.append("--trust-remote-code")
    flags = section.flags if flags is None else flags
    keys = keys_wanted(section, flags)
    if embedded and "api-key" in keys:
        words += ["--api-key-env", keys["api-key"]]
    elif keys and not embedded:
        words += ["--config", str(keys_path(root, section))]
    return words + flag_words(flags)
