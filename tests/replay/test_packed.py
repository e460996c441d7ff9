"""The runs prepared in `benchmarks/runs`: their settings are valid; what they pack is replayed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.config import parse_config
from eagle_tui.config.command import command_line
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import Timeline
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.tuning.flags import parse_help
from eagle_tui.supervisor.tuning.order import CannotRetune, ServerView, orders

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "benchmarks" / "runs"
HELPS = sorted((ROOT / "tests" / "fixtures" / "server_help").glob("sglang-*.txt"))


@pytest.mark.parametrize("path", sorted(RUNS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_settings_are_valid(path: Path) -> None:
    config = parse_config(path.read_text(), source=path.name)
    assert config.run.phases and config.dataset


@pytest.mark.parametrize("path", HELPS, ids=lambda path: path.stem)
def test_the_orders_to_retune_are_judged_as_they_are_meant(path: Path, tmp_path: Path) -> None:
    config = parse_config((RUNS / "retune-h200.toml").read_text(), source="run.toml")
    (tmp_path / "models" / "SmolLM2-135M-Instruct").mkdir(parents=True)
    argv = tuple(command_line(config, config.server[0], tmp_path, 1))
    server = ServerView("sglang", argv, flags=parse_help(path.read_text()))
    script = (RUNS / "retune.sh").read_text()
    (line,) = (line for line in script.splitlines() if line.startswith("default="))
    (words,) = shlex.split(line.partition("=")[2])
    judged = {}
    for word in words.split():
        key, _, value = word.partition("=")
        try:
            judged[word] = orders([server], None, {key: value})[0].words
        except CannotRetune:
            judged[word] = "refused"
    assert [word for word, told in judged.items() if told == "refused"] == [
        "mem-fraction-static=1.5",
        "no-such-flag=3",
    ]
    assert judged["max-running-requests=256"] == "max-running-requests 48 → 256"


def pack(run: RunDir, out: Path) -> None:
    argv = [str(RUNS / "pack.sh"), str(run.root), str(out)]
    subprocess.run(argv, check=True, env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable})


async def test_a_packed_run_is_replayed(recorded: RunDir, tmp_path: Path) -> None:
    packed = tmp_path / "packed.tar.xz"
    pack(recorded, packed)
    with tarfile.open(packed) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "again", filter="data")
    assert not any("responses" in name or "-wal" in name for name in names)
    ends = []
    for run in (recorded, RunDir.at(tmp_path / "again")):
        client = ReplayClient.open(
            run, lambda start, end: Timeline(ManualClock(), start, end, start)
        )
        try:
            client.timeline.seek(client.timeline.end)
            status = await client.status()
            ends.append((client.timeline.end, [p.state for p in status.phases], status.total))
            assert await client.marks(client.timeline.start)
        finally:
            await client.close()
    assert ends[0] == ends[1]
