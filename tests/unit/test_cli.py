"""The command line without a run: exit codes, sentences, what `init` makes; and the packages."""

from __future__ import annotations

import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
import setuptools

from eagle_tui.cli import main as cli
from eagle_tui.config import load_config

ROOT = Path(__file__).parent.parent.parent


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = str(tmp_path / "run")
    assert run("status", there) == 4
    assert "eagle-tui init" in capsys.readouterr().err
    assert run("init", there, "--preset", "kimi-k2.5-8gpu") == 0
    assert run("init", there, "--preset", "kimi-k2.5-8gpu") == 3
    assert "is there already" in capsys.readouterr().err
    assert run("check", there) == 2
    said = capsys.readouterr().err
    assert said.count("there is no file") == 10 and "no program '/opt/sglang" in said
    assert "no directory /models/Kimi-K2.5" in said
    for verb in (("pause",), ("resume",), ("cap", "x", "--tokens", "1M"), ("down",)):
        assert run(verb[0], there, *verb[1:], "--yes") == 3
        assert "not started yet" in capsys.readouterr().err
    assert run("status", there) == 3
    assert run("nonsense") == 2
    assert run("cap", there) == 2
    small = str(tmp_path / "small")
    assert run("init", small) == 0 and run("check", small) == 0
    assert "7 datasets" in capsys.readouterr().out
    assert run("attach", there) in (2, 3)
    (tmp_path / "run" / "run.toml").write_text("[run]\nnam = 1\n")
    capsys.readouterr()
    assert run("check", there) == 2
    said = capsys.readouterr().err
    assert "did you mean 'name'" in said and "target: missing" in said
    assert run("up", there, "--detach") == 2


def test_init_with_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "r"
    words = ("--set", "generate.concurrency=64", "--set", "dataset[b1-glaive].samples=7")
    assert run("init", str(there), "--preset", "kimi-k2.5-8gpu", *words) == 0
    config = load_config(there / "run.toml")
    assert (config.generate.concurrency, config.dataset_named("b1-glaive").samples) == (64, 7)
    assert "b8" in (there / "run.toml").read_text(), "comments and the rest are kept"
    assert run("init", str(tmp_path / "s"), "--set", "generate.concurency=1") == 2
    assert "did you mean 'concurrency'" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_a_demo_that_cannot_be_made_touches_nothing_of_the_user(tmp_path: Path) -> None:
    mine = tmp_path / "data" / "mine.jsonl"
    mine.parent.mkdir()
    mine.write_text("{}\n")
    assert run("demo", str(tmp_path), "--headless", "--set", "generate.concurency=1") == 2
    assert mine.read_text() == "{}\n"


def test_counts_are_read_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cap", "nowhere", "x", "--tokens", "10X") == 2
    assert "'10X' is not a count" in capsys.readouterr().err


def test_everything_is_installed_inside_the_one_package(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **words: made.update(words))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    packages = set(made["packages"])
    assert {name.split(".")[0] for name in packages} == {"eagle_tui"}
    for top, name in (("src/eagle_tui", "eagle_tui"), ("pipeline", "eagle_tui.pipeline")):
        for file in (ROOT / top).rglob("*.py"):
            parts = file.parent.relative_to(ROOT / top).parts
            assert ".".join((name, *parts)) in packages, f"{file} would not be installed"
    assert "eagle_tui.themes" in packages


def test_what_is_told_to_type_next_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "my run $(x) 'y'"
    assert run("init", str(there)) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(last.partition("then: ")[2])
    assert words[1:3] == ["check", str(there)] and words[-2:] == ["up", str(there)]
