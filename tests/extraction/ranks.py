"""Extraction in processes of their own, slowed down so that a kill meets it at work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from .world import World

SLOW = '''"""The extract phase with a pause in each batch; under torchrun this file is the rank."""
import sys, time
from eagle_tui.pipeline import extract
from eagle_tui.pipeline.extraction import target
from eagle_tui.pipeline.torchrun.rank import entry

real = target.Capture.states

def slow(self, rows):
    time.sleep({pause})
    return real(self, rows)

target.Capture.states = slow
extract.MODULE = "slow_extract"
if __name__ == "__main__":
    sys.exit(entry("extract", extract.body, extract.share))
'''


def start(world: World, pause: float) -> subprocess.Popen[bytes]:
    """Start the phase as an operator would; each batch takes `pause` seconds longer."""
    (world.run.root / "slow_extract.py").write_text(SLOW.format(pause=pause))
    return subprocess.Popen(
        [sys.executable, "-m", "slow_extract", str(world.run.root)],
        cwd=world.run.root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(world.run.root)},
        stdout=(world.run.root / "out.log").open("ab"),
        stderr=subprocess.STDOUT,
    )


def ranks_of(starter: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The ranks that torchrun has started, the first one first."""
    found: list[tuple[int, psutil.Process]] = []
    for process in psutil.Process(starter.pid).children(recursive=True):
        try:
            rank = process.environ().get("RANK")
        except psutil.Error:
            continue
        if rank is not None:
            found.append((int(rank), process))
    return [process for _, process in sorted(found, key=lambda pair: pair[0])]


def wait_for(what: str, met: Callable[[], bool], seconds: float = 180.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def shards_written(world: World) -> list[Path]:
    """Shards on disk, whole."""
    return list(world.run.phase("extract").glob("shards-*/*.safetensors"))
