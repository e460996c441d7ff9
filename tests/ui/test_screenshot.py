"""The tool that draws the pictures of the docs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data"
TOOL = Path(__file__).parents[2] / "tools" / "screenshot.py"


def test_it_draws_a_scene_and_refuses_none(tmp_path: Path) -> None:
    out = tmp_path / "screen.svg"
    command = [sys.executable, str(TOOL), str(DATA / "laptop.json"), str(out), "--size", "100x30"]
    subprocess.run(command, check=True, timeout=60)
    assert ">demo</text>" in out.read_text()
    command[2] = str(tmp_path / "none.json")
    assert subprocess.run(command, check=False, timeout=60).returncode == 2
