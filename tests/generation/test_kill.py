"""kill -9 at random: no prompt lost, none doubled, no row wrong. And one owner at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from . import killing
from .fake_server import FakeServer
from .world import make_world


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_every_prompt_has_exactly_one_right_row(tmp_path: Path, seed: int) -> None:
    result = killing.kill_run(tmp_path / "run", seed, kills=11)
    assert sum(result.states.values()) == 200
    assert set(result.states) <= {"complete", "no_answer", "dead"}
    assert result.states["complete"] >= 190
    assert result.at_work >= 3 and result.stored_pieces >= 1


async def test_second_worker_is_refused_and_told_the_owner(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 30})
    async with FakeServer(token_s=0.05) as server:
        world.endpoint(server.url)
        first = await asyncio.create_subprocess_exec(
            *killing._module("fast_worker", str(world.run.root)), cwd=killing.ROOT
        )
        end = time.monotonic() + 20
        while not server.live:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        second = await asyncio.to_thread(
            subprocess.run,
            killing._module("fast_worker", str(world.run.root)),
            cwd=killing.ROOT,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert second.returncode == 3
        assert (
            str(first.pid) in second.stderr.decode()
            and os.uname().nodename in second.stderr.decode()
        )
        began = time.monotonic()
        first.send_signal(signal.SIGTERM)
        assert await first.wait() == 0
        assert time.monotonic() - began < 20.0
        assert not server.live
    assert world.run.partial("b1").stat().st_size > 0
