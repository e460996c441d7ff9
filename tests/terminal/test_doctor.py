"""doctor terminal in a real tmux: what it advises is what mends it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .rig import screen

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
DOCTOR = [sys.executable, "-m", "eagle_tui", "doctor", "terminal"]


@pytest.fixture
def tmux() -> Iterator[list[str]]:
    """A tmux server of our own, without anybody's configuration."""
    words = ["tmux", "-L", f"doctor-{uuid.uuid4().hex[:8]}", "-f", "/dev/null"]
    yield words
    subprocess.run([*words, "kill-server"], check=False, capture_output=True)


def examine(tmux: list[str], tmp_path: Path) -> dict[str, dict[str, Any]]:
    """What doctor says in a window of that tmux, by what it is about."""
    out = tmp_path / f"{uuid.uuid4().hex}.json"
    line = f"{' '.join(DOCTOR)} --json >{out}.part; mv {out}.part {out}"
    subprocess.run([*tmux, "new-window", "-d", line], check=True)
    deadline = time.monotonic() + 30
    while not out.exists():
        assert time.monotonic() < deadline, "doctor does not answer"
        time.sleep(0.05)
    return {item["what"]: item for item in json.loads(out.read_text())}


def test_each_line_it_gives_mends_what_it_names(tmux: list[str], tmp_path: Path) -> None:
    prompt = "$" if os.getuid() else "#"
    env = {"LC_ALL": "C.UTF-8", "HOME": str(tmp_path)}
    subprocess.run([*tmux, "new-session", "-d", "sh"], check=True)
    for line in ("set -g default-terminal screen", "set -s set-clipboard off"):
        subprocess.run([*tmux, *line.split()], check=True)
    conf = tmp_path / "tmux.conf"
    wanted = {"default-terminal", "24-bit colour", "escape-time", "focus-events", "set-clipboard"}
    mended: list[set[str]] = []
    for _ in range(4):  # behind a lack there may be another one
        with screen(command=[*tmux, "attach"], env=env, ready=prompt):
            found = examine(tmux, tmp_path)
        lacks = [found[what] for what in wanted if found[what]["level"] != "ok"]
        mended.append({item["what"] for item in lacks})
        if not lacks:
            break
        conf.write_text("\n".join(line for item in lacks for line in item["remedy"]) + "\n")
        subprocess.run([*tmux, "source-file", str(conf)], check=True)
    assert mended[0] == wanted
    assert mended[-1] == set(), mended


def test_the_terminal_itself_is_asked(tmux: list[str]) -> None:
    hold = f"{' '.join(DOCTOR)}; sleep 60"
    size = ["-x", "150", "-y", "50"]
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"LC_ALL": "C.UTF-8"}
    subprocess.run([*tmux, "new-session", "-d", *size, hold], check=True, env=env)
    deadline = time.monotonic() + 30
    text = ""
    while "set-clipboard" not in text:
        assert time.monotonic() < deadline, text
        words = [*tmux, "capture-pane", "-p"]
        shown = subprocess.run(words, check=False, capture_output=True, text=True)
        text = shown.stdout
        time.sleep(0.1)
    assert "says it is tmux" in text and "150×50" in text
    assert "every glyph takes the cells that it should" in text
    assert "\u28ff" not in text, "what was drawn to be measured is wiped"
