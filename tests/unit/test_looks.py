"""How the screen is drawn, as the command line and the environment say."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.cli.screen import Looks, attach
from eagle_tui.rundir.paths import RunDir


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    for name in ("NO_COLOR", "EAGLE_TUI_GLYPHS", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("LANG", "C.UTF-8")
    return RunDir.at(tmp_path)


def test_the_environment_decides_when_nothing_is_asked(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Looks().options(run)
    assert found["color"] == "truecolor" and found["theme"] == "eagle-dark"
    assert found["glyphs_mode"] == "braille" and found["mouse"] is True
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "POSIX")
    found = Looks().options(run)
    assert found["color"] == "none" and found["theme"] == "eagle-ansi"
    assert found["glyphs_mode"] == "ascii"


def test_what_is_asked_counts_more(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    found = Looks(theme="eagle-light", glyphs="block", color="256", mouse=False).options(run)
    assert (found["theme"], found["glyphs_mode"]) == ("eagle-light", "block")
    assert (found["color"], found["mouse"]) == ("256", False)
    assert Looks(theme="eagle-light", color="16").options(run)["theme"] == "eagle-light"


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--ascii"], "glyphs", "ascii"),
        (["--glyphs", "block"], "glyphs", "block"),
        (["--no-mouse"], "mouse", False),
        (["--color", "none"], "color", "none"),
        ([], "mouse", True),
    ],
)
def test_options(words: list[str], name: str, value: object) -> None:
    assert attach.make_context("attach", ["RUN", *words]).params[name] == value
