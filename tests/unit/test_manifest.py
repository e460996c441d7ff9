"""Manifests that a bad disk or a hand left behind: told in one line, and what follows is stale."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.config import parse_config
from eagle_tui.config.model import ExtractSection
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


class NewerExtract(ExtractSection):
    """As of a program that has a setting more."""

    new_setting: int = 7


def test_a_program_with_more_settings_makes_nothing_stale(tmp_path: Path) -> None:
    run, config = RunDir.at(tmp_path), parse_config(preset_text("demo", "r"))
    made = manifest.inputs_of(config, run, "extract")
    newer = NewerExtract(**config.extract.model_dump())
    assert manifest.inputs_of(config.model_copy(update={"extract": newer}), run, "extract") == made
    used = newer.model_copy(update={"new_setting": 8})
    now = manifest.inputs_of(config.model_copy(update={"extract": used}), run, "extract")
    assert now["[extract]"] != made["[extract]"]


def test_a_run_that_was_moved_is_not_stale(tmp_path: Path) -> None:
    text = preset_text("demo", "r").replace("[target]", '[target]\nchat_template = "t.jinja"')
    config = parse_config(text)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "t.jinja").write_text("a")
    made = manifest.inputs_of(config, RunDir.at(tmp_path / "here"), "prepare")
    there = (tmp_path / "here").rename(tmp_path / "there")
    assert manifest.inputs_of(config, RunDir.at(there), "prepare") == made
    (there / "t.jinja").write_text("b")
    assert manifest.inputs_of(config, RunDir.at(there), "prepare")["target"] != made["target"]
