"""Memory as a container sees it, and when the disk will be full."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.telemetry import memory as memory_module
from eagle_tui.telemetry.host import FREED, HostSampler
from eagle_tui.telemetry.memory import Memory, memory, oom_kills

GIB = 2**30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(total=64 * GIB, available=40 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    monkeypatch.setattr(memory_module, "_own", lambda: "run/inner")


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_without_a_limit_it_is_the_machine(tmp_path: Path) -> None:
    assert memory(tmp_path) == Memory(64 * GIB, 24 * GIB)
    write(tmp_path, memory__max="max\n", memory__current="5\n")
    assert memory(tmp_path).total == 64 * GIB


def test_the_limit_of_a_container_counts_and_its_old_cache_does_not(tmp_path: Path) -> None:
    stat = f"anon 5\ninactive_file {3 * GIB}\nactive_file 7\n"
    write(
        tmp_path,
        memory__max=f"{16 * GIB}\n",
        memory__current=f"{10 * GIB}\n",
        memory__stat=stat,
    )
    assert memory(tmp_path) == Memory(16 * GIB, 7 * GIB)
    assert memory(tmp_path).free == 9 * GIB


def test_the_tightest_group_above_us_counts(tmp_path: Path) -> None:
    write(tmp_path / "run", memory__max=f"{8 * GIB}", memory__current=f"{7 * GIB}")
    write(tmp_path / "run/inner", memory__max=f"{6 * GIB}", memory__current=f"{1 * GIB}")
    assert memory(tmp_path) == Memory(8 * GIB, 7 * GIB)


def test_version_1(tmp_path: Path) -> None:
    write(
        tmp_path / "memory",
        memory__limit_in_bytes=f"{4 * GIB}",
        memory__usage_in_bytes=f"{3 * GIB}",
        memory__stat=f"total_inactive_file {1 * GIB}\n",
    )
    assert memory(tmp_path) == Memory(4 * GIB, 2 * GIB)
    write(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712")
    assert memory(tmp_path).total == 64 * GIB


def test_a_limit_above_the_machine_is_none(tmp_path: Path) -> None:
    write(tmp_path, memory__max=f"{100 * GIB}", memory__current=f"{90 * GIB}")
    assert memory(tmp_path) == Memory(64 * GIB, 24 * GIB)


def test_kills_for_want_of_memory_are_counted(tmp_path: Path) -> None:
    write(tmp_path, memory__events="low 0\noom 4\noom_kill 3\n")
    assert oom_kills(tmp_path) == 3
    write(tmp_path, memory__events="garbage\n")
    counted = oom_kills(tmp_path)
    assert counted is None or counted >= 0, "then the machine's own count, where there is one"


def disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    free = [1000_000_000_000]
    usage = lambda path: SimpleNamespace(total=10**13, used=0, free=free[0])  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    return free


def test_the_disk_is_full_when_its_trend_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, free = ManualClock(), disk(monkeypatch)
    free[0] = 1000_000_000
    sampler = HostSampler(tmp_path, clock)
    assert sampler.sample().disk_full_at is None
    clock.advance(100.0)
    free[0] -= 100_000_000
    assert sampler.sample().disk_full_at is None, "a minute is no trend"
    clock.advance(900.0)
    free[0] -= 400_000_000
    full_at = sampler.sample().disk_full_at
    assert full_at is not None and abs(full_at - clock.wall() - 1000.0) < 1.0


def test_room_that_was_made_begins_a_new_trend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, free = ManualClock(), disk(monkeypatch)
    sampler = HostSampler(tmp_path, clock)
    rate = 100_000_000
    for step in range(200):
        if step == 100:
            free[0] += 50 * FREED
            assert sampler.sample().disk_full_at is None
        clock.advance(10.0)
        free[0] -= 10 * rate
        full_at = sampler.sample().disk_full_at
    assert full_at is not None
    assert abs(full_at - clock.wall() - free[0] / rate) < 0.02 * free[0] / rate


def test_the_first_cpu_figure_is_not_known(tmp_path: Path) -> None:
    sampler = HostSampler(tmp_path, ManualClock())
    assert sampler.sample().cpu is None
    second = sampler.sample()
    assert second.cpu is not None and second.mem == pytest.approx(24 / 64, abs=0.6)
