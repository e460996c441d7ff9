"""A run that was recorded on an H200: SmolLM2-135M through all six phases with SGLang 0.5.17.

`data/h200-smollm2.tar.xz` is that run's directory without its data: state, status, settings, and
what the benchmark and the export said.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import Timeline
from eagle_tui.rundir.paths import RunDir

RECORDED = Path(__file__).parent / "data" / "h200-smollm2.tar.xz"


@pytest.fixture
def h200(tmp_path: Path) -> RunDir:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path / "run", filter="data")
    return RunDir.at(tmp_path / "run")


async def test_every_phase_was_seen_and_the_gpu_worked(h200: RunDir) -> None:
    client = ReplayClient.open(h200, lambda start, end: Timeline(ManualClock(), start, end, start))
    try:
        time = client.timeline
        running: dict[str, float] = {}
        at = time.start
        while at < time.end:
            time.seek(at)
            status = await client.status()
            for phase in status.phases:
                if phase.state == "running" and status.gpus and status.gpus[0].util is not None:
                    running[phase.name] = max(running.get(phase.name, 0), status.gpus[0].util)
            at += 10
        assert set(running) >= {"prepare", "generate", "merge", "extract", "train", "bench"}
        # So small a model leaves half of the GPU idle while it answers.
        assert running["generate"] > 0.4 and running["train"] > 0.9

        time.seek(time.end)
        last = await client.status()
        assert all(phase.state == "done" for phase in last.phases)
        assert last.total is not None and last.total.tokens > 2_000_000
        gpu = last.gpus[0]
        assert gpu.name == "NVIDIA H200" and gpu.mem_total == 150_754_820_096

        power = await client.history("gpu0.power_w", time.start, 10.0)
        assert max(p.high for p in power.points) > 300
        assert {mark.kind for mark in await client.marks(time.start)} >= {"phase"}
    finally:
        await client.close()


def test_what_it_measured(h200: RunDir) -> None:
    """SGLang took the drafter, and its accept length is what training foretold within a tenth."""
    body = json.loads((h200.phase("bench") / "report.json").read_text())
    assert body["accept_length"]["by_dataset"]["gsm8k"] >= 2.2
    foretold = body["simulated_accept_length"]
    assert abs(body["accept_length"]["overall"] - foretold) <= 0.1 * foretold
