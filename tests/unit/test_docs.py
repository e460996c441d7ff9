"""The pages that come from the code are up to date, and the README says what is true."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from eagle_tui.actions import ACTIONS
from eagle_tui.cli.main import cli
from eagle_tui.ui.keys import key_text

ROOT = Path(__file__).parent.parent.parent


def test_pages_are_up_to_date() -> None:
    words = [sys.executable, str(ROOT / "tools" / "make_docs.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.name)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.name)
def test_commands_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for verb in re.findall(r"eagle-tui ([a-z]+)\b", text):
        assert verb in cli.commands, f"{page.name} names `eagle-tui {verb}`"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.M), f"{page.name} names `make {target}`"


def test_the_readme_names_the_keys_of_the_footer() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for action in ACTIONS:
        if action.footer and action.key and not action.modes:
            assert f"`{key_text(action.key)}`" in text, action.id


def test_every_command_has_help() -> None:
    for name, command in cli.commands.items():
        done = CliRunner().invoke(cli, [name, "--help"])
        assert done.exit_code == 0 and command.help, name


SCREEN_ALONE = {
    *("fold", "fold_answer", "wrap", "left", "right", "quit", "back", "redraw"),
}
"""Keys that concern what is on the screen and nothing else."""


def test_what_a_key_can_do_a_command_can_do() -> None:
    """Each twin is a command with these options; those of places and times are meant as named."""
    for action in ACTIONS:
        if action.verb is not None:
            assert action.verb in cli.commands and not action.twins, action.id
            continue
        assert bool(action.twins) != (action.id in SCREEN_ALONE), action.id
        for twin in action.twins:
            program, *words = twin.replace("[", "").replace("]", "").split()
            assert program == "eagle-tui"
            if words == ["--help"]:
                continue
            command = cli.commands[words[0]]
            known = {name for param in command.params for name in param.opts}
            arguments = [param for param in command.params if param.param_type_name == "argument"]
            positional = 0
            for before, word in itertools.pairwise(words):
                if word.startswith("-"):
                    assert word in known, twin
                elif not before.startswith("-"):
                    positional += 1
            assert positional <= len(arguments), twin
