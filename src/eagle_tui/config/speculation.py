"""A drafter that is served with the wrong algorithm: told before the launch.

SGLang takes `--speculative-algorithm EAGLE` with an EAGLE-3 drafter without a word, feeds it the
last hidden state where it was trained on three of them, and accepts nothing that it drafts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eagle_tui.config.target import path_of

LARGEST = 1 << 20
"""Bytes of a config.json that is read."""


def algorithm_fault(config: dict[str, Any], algorithm: str) -> str:
    """Why a drafter with this config.json must not be served with this --speculative-algorithm;
    empty when it may."""
    listed = config.get("architectures")
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    if any(name.endswith("Eagle3") for name in names) and algorithm.upper() == "EAGLE":
        return (
            "The drafter is an EAGLE-3 one, but the speculative algorithm is EAGLE: it would be "
            "fed the last state alone, and the accept length would be exactly 1.0. Use "
            "--speculative-algorithm EAGLE3."
        )
    return ""


def command_fault(words: Sequence[str], root: Path) -> str:
    """The same of a command line that is started in `root`; empty as well where the drafter is a
    hub id, or its config.json cannot be read."""
    algorithm = _value(words, "speculative-algorithm")
    drafter = _value(words, "speculative-draft-model-path")
    if not algorithm or not drafter:
        return ""
    try:
        with (path_of(drafter, root) / "config.json").open("rb") as file:
            config = json.loads(file.read(LARGEST))
    except (OSError, ValueError):
        return ""
    return algorithm_fault(config, algorithm) if isinstance(config, dict) else ""


def _value(words: Sequence[str], flag: str) -> str:
    """What a flag is set to, `--flag value` or `--flag=value`; the last one counts."""
    found = ""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == f"--{flag}":
            found = value if equals else next(iter(words[place + 1 : place + 2]), "")
    return found
