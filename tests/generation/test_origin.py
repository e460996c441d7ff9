"""Responses of another target are never gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.config import parse_config
from eagle_tui.config.model import RunConfig
from eagle_tui.pipeline.generation import origin
from eagle_tui.pipeline.worker import Refused
from eagle_tui.rundir.paths import RunDir


def config(model: str = "m", extra: str = "") -> RunConfig:
    return parse_config(
        f'[target]\nmodel = "{model}"\n{extra}\n[[server]]\nengine = "embedded"\n'
        '[[dataset]]\nname = "a"\nsource = "a.jsonl"\n'
    )


def test_another_target_is_refused_once_there_are_responses(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    origin.check(config(), run)
    origin.check(config("n"), run)  # nothing was answered yet
    run.responses("a").write_text('{"id": "x"}\n')
    origin.check(config("n"), run)
    with pytest.raises(Refused, match="changed: model; they are of n"):
        origin.check(config("m"), run)
    with pytest.raises(Refused, match="chat_template_kwargs"):
        origin.check(config("n", "chat_template_kwargs = { enable_thinking = true }"), run)
    (tmp_path / "t.jinja").write_text("x")
    with pytest.raises(Refused, match="chat_template"):
        origin.check(config("n", 'chat_template = "t.jinja"'), run)


def test_a_template_in_the_home_directory_counts_by_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "t.jinja").write_text("x")
    run, written = RunDir.at(tmp_path), 'chat_template = "~/t.jinja"'
    origin.check(config(extra=written), run)
    run.responses("a").write_text('{"id": "x"}\n')
    origin.check(config(extra=written), run)
    (tmp_path / "t.jinja").write_text("another")
    with pytest.raises(Refused, match="chat_template"):
        origin.check(config(extra=written), run)


def test_a_setting_that_changes_no_answer_may_change(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    origin.check(config(), run)
    run.responses("a").write_text('{"id": "x"}\n')
    origin.check(config("m", 'context_length = 4096\nreasoning = "none"'), run)
