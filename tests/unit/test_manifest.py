"""Manifests that a bad disk or a hand left behind: told in one line, and what follows is stale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.config import parse_config
from eagle_tui.config.presets import preset_text
from eagle_tui.rundir import manifest
from eagle_tui.rundir.paths import RunDir

BROKEN: dict[str, Callable[[Path], object]] = {
    "nul": lambda path: path.write_bytes(b"\0\0\0"),
    "list": lambda path: path.write_text("[]"),
    "other": lambda path: path.write_text('{"phase": 5}'),
    "deep": lambda path: path.write_text("[" * 100_000),
    "latin-1": lambda path: path.write_bytes(b'{"phase": "\xe9"}'),
    "directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_manifest_is_told_and_makes_the_next_phase_stale(tmp_path: Path, how: str) -> None:
    run, config = RunDir.at(tmp_path), parse_config(preset_text("demo", "r"))
    whole = manifest.Manifest(phase="prepare", made_at=0.0, attempt=1, inputs={})
    manifest.write(run, whole)
    inputs = manifest.inputs_of(config, run, "generate")
    made = whole.model_copy(update={"phase": "generate", "inputs": inputs})
    assert manifest.stale_reason(made, manifest.inputs_of(config, run, "generate")) == ""

    path = run.manifest("prepare")
    path.unlink()
    BROKEN[how](path)
    with pytest.raises(ValueError, match=r"prompts/manifest\.json") as caught:
        manifest.read(run, "prepare")
    assert "\n" not in str(caught.value)
    now = manifest.inputs_of(config, run, "generate")
    assert manifest.stale_reason(made, now) == "changed: output of prepare"
