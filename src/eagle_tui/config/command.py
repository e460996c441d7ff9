"""The argument list that starts a server of run.toml."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from eagle_tui.config.model import FlagValue, RunConfig, ServerSection
from eagle_tui.config.target import model_location


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
    return words + flag_words(section.flags if flags is None else flags)
