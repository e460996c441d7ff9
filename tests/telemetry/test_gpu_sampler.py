"""The supervisor's side: a child that crashes, hangs or talks nonsense is replaced, and GPUs that
were there once are never left out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_tui.clock import ManualClock, SystemClock
from eagle_tui.telemetry import gpu
from eagle_tui.telemetry.gpu import GpuSampler


def child(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def says(*bodies: object, then: str = "") -> list[str]:
    lines = "".join(f"print({json.dumps(body)!r}, flush=True)\n" for body in bodies)
    return child(f"import os, time\n{lines}{then}")


STAYS = "time.sleep(60)"
ONE = {"gpus": [{"index": 0, "name": "X", "util": 0.5}]}


async def until(sampler: GpuSampler, true: Callable[[], bool]) -> None:
    task = asyncio.create_task(sampler.run())
    try:
        end = time.monotonic() + 20.0
        while not true():
            assert time.monotonic() < end, (sampler.note, sampler.gpus())
            await asyncio.sleep(0.02)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "RETRY_S", 0.05)
    monkeypatch.setattr(gpu, "AGAIN_S", 0.05)
    monkeypatch.setattr(gpu, "END_S", 0.2)


async def test_lines_become_figures_with_an_age() -> None:
    sampler = GpuSampler(SystemClock(), says(ONE, then=STAYS))
    await until(sampler, lambda: bool(sampler.gpus()))
    (found,) = sampler.gpus()
    assert (found.name, found.util, found.power_w, sampler.note) == ("X", 0.5, None, "")
    assert found.age_s is not None and 0 <= found.age_s < 30


async def test_old_figures_are_null_and_the_gpu_stays() -> None:
    clock = ManualClock()
    sampler = GpuSampler(clock, says(ONE, then=STAYS))
    await until(sampler, lambda: bool(sampler.gpus()))
    clock.advance(14.0)
    assert [(g.util, g.age_s) for g in sampler.gpus()] == [(0.5, 14.0)]
    clock.advance(2.0)
    assert [(g.name, g.util, g.age_s) for g in sampler.gpus()] == [("X", None, 16.0)]


async def test_a_maker_that_is_absent_makes_way_for_the_next() -> None:
    none = {"note": "no NVIDIA driver on this machine", "absent": True}
    sampler = GpuSampler(SystemClock(), says(none), says(ONE, then=STAYS))
    await until(sampler, lambda: bool(sampler.gpus()))


@pytest.mark.parametrize("second", [{"note": "no AMD tool", "absent": True}, {"note": "amd: ill"}])
async def test_what_a_driver_says_comes_before_that_there_is_none(
    second: dict[str, object],
) -> None:
    none = {"note": "no NVIDIA driver on this machine", "absent": True}
    sampler = GpuSampler(SystemClock(), says(none), says(second))
    wanted = none["note"] if "absent" in second else second["note"]
    await until(sampler, lambda: sampler.note == wanted)
    assert sampler.gpus() == ()


async def test_a_sampler_that_crashes_is_started_again() -> None:
    sampler = GpuSampler(SystemClock(), says(then="os.kill(os.getpid(), 11)"))
    await until(sampler, lambda: "crashed" in sampler.note)


async def test_a_sampler_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "DEADLINE_S", 0.3)
    sampler = GpuSampler(SystemClock(), says(then=STAYS))
    await until(sampler, lambda: "does not answer" in sampler.note)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_child_whose_pipe_stays_open_leaves_no_descriptor_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when it is stuck in the driver: the pipe's other end is held by its own child here."""
    monkeypatch.setattr(gpu, "DEADLINE_S", 0.1)
    sampler = GpuSampler(SystemClock(), ["/bin/sh", "-c", "sleep 5 & sleep 5"])
    await sampler._round()
    before = open_files()
    for _ in range(3):
        await sampler._round()
    assert open_files() <= before


async def test_while_a_child_does_not_die_no_other_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "DEADLINE_S", 0.1)
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _: None)
    sampler = GpuSampler(SystemClock(), says(then=STAYS))
    await sampler._round()
    first = sampler._stuck
    assert first is not None and first.returncode is None
    await sampler._round()
    assert sampler._stuck is first
    os.kill(first.pid, signal.SIGKILL)
    await first.wait()
    await sampler._round()
    assert sampler._stuck is not None and sampler._stuck is not first
    os.kill(sampler._stuck.pid, signal.SIGKILL)
    await sampler._stuck.wait()


async def test_a_sampler_that_cannot_be_started_is_said() -> None:
    sampler = GpuSampler(SystemClock(), ["/nonexistent/sampler"])
    await until(sampler, lambda: "cannot be started" in sampler.note)


async def test_nonsense_is_passed_over() -> None:
    lines = [[1], {"gpus": 3}, {"gpus": [{"index": "x"}]}, {"gpus": [{"name": "no index"}]}, "…"]
    sampler = GpuSampler(SystemClock(), says(*lines, ONE, then=STAYS))
    await until(sampler, lambda: bool(sampler.gpus()))
    assert len(sampler.gpus()) == 1


async def test_a_line_without_an_end_does_not_fill_memory() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    sampler = GpuSampler(SystemClock(), child(endless))
    await until(sampler, lambda: "without an end" in sampler.note)


async def test_a_gpu_that_vanished_is_gone_and_not_forgotten() -> None:
    both = {"gpus": [{"index": 0, "name": "A"}, {"index": 1, "name": "B"}]}
    sampler = GpuSampler(SystemClock(), says(both, {"gpus": both["gpus"][:1]}, then=STAYS))
    await until(sampler, lambda: len(sampler.gpus()) == 2 and sampler.gpus()[1].state == "gone")
    assert [(g.index, g.name, g.state) for g in sampler.gpus()] == [
        (0, "A", "ok"),
        (1, "B", "gone"),
    ]


async def test_figures_stay_and_the_reason_is_said_when_the_driver_goes(tmp_path: Path) -> None:
    """A child that had figures and then died is replaced; its successor finds the driver ill."""
    flag = str(tmp_path / "flag")
    code = (
        "import json, os, pathlib\n"
        f"flag = pathlib.Path({flag!r})\n"
        "if flag.exists(): print(json.dumps({'note': 'driver mismatch: reboot'}), flush=True)\n"
        f"else: flag.touch(); print(json.dumps({ONE!r}), flush=True); os.kill(os.getpid(), 11)\n"
    )
    sampler = GpuSampler(SystemClock(), child(code))
    await until(sampler, lambda: "mismatch" in sampler.note)
    assert [g.util for g in sampler.gpus()] == [0.5]
