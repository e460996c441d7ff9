"""`run.accepted.toml`: run.toml as the supervisor took it.

run.toml is edited while the run goes on, and may be half-written when a worker starts again: cut
short it can even be valid, with fewer datasets. So the supervisor keeps the text that it accepted
(at `up` and `rerun`), and what it starts goes by that. Programs started by hand go by run.toml.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence

from eagle_tui.config import ConfigError, RunConfig, load_config, parse_config
from eagle_tui.config.load import read_text
from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir


def take(run: RunDir) -> RunConfig:
    """Read run.toml and keep its text as accepted. ConfigError when it is not usable: then what was
    accepted before stays."""
    text = read_text(run.config)
    config = parse_config(text, source=str(run.config))
    keep(run, text)
    return config


def keep(run: RunDir, text: str) -> None:
    """Keep a text as accepted; only its owner reads it when only he reads run.toml."""
    if not run.accepted.exists() or read_text(run.accepted) != text:
        mode = stat.S_IMODE(run.config.stat().st_mode)
        atomic.write_text(run.accepted, text, mode=mode)


def held(run: RunDir, before: RunConfig, now: RunConfig, parts: Sequence[str]) -> str:
    """What to do first when one of the parts that hold as long as something runs by them differs;
    else empty."""
    changed = next((p for p in parts if getattr(now, p) != getattr(before, p)), None)
    return f"[{changed}] of run.toml changed: `eagle-tui down {run.root}` first" if changed else ""


def settings(run: RunDir) -> tuple[RunConfig, str]:
    """The settings that were accepted, and what the operator should know when run.toml says
    something else now (else empty). Without any accepted ones those of run.toml; ConfigError when
    these are not usable."""
    if not run.accepted.exists():
        return load_config(run.config), ""
    config = load_config(run.accepted)
    going_on = f"The settings that were accepted hold until `eagle-tui up {run.root}`"
    try:
        now = load_config(run.config)
    except ConfigError as error:
        more = f" ({len(error.problems)} problems)" if len(error.problems) > 1 else ""
        return config, f"run.toml is not usable now: {error.problems[0]}{more}. {going_on}"
    return config, "" if now == config else f"run.toml was changed. {going_on}"
