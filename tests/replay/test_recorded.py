"""Runs that were recorded on an H200 with SGLang 0.5.17 and SmolLM2-135M.

`data/h200-smollm2.tar.xz` went through all six phases (`benchmarks/runs/smollm2-h200.toml`),
`data/h200-retune.tar.xz` was retuned under load (`retune-h200.toml`, `retune.sh`). Both are the
run's directory without its data: state, status, settings, and what benchmark and export said.
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

DATA = Path(__file__).parent / "data"


def unpacked(name: str, tmp_path: Path) -> RunDir:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path / "run", filter="data")
    return RunDir.at(tmp_path / "run")


@pytest.fixture
def h200(tmp_path: Path) -> RunDir:
    return unpacked("h200-smollm2", tmp_path)


def replayed(run: RunDir) -> ReplayClient:
    return ReplayClient.open(run, lambda start, end: Timeline(ManualClock(), start, end, start))


async def test_every_phase_was_seen_and_the_gpu_worked(h200: RunDir) -> None:
    client = replayed(h200)
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


async def test_retunes_what_each_brought_and_one_that_was_taken_back(tmp_path: Path) -> None:
    client = replayed(unpacked("h200-retune", tmp_path))
    try:
        time = client.timeline
        time.seek(time.end)
        first, more, larger, wrong, back = await client.launches()
        assert [a.outcome for a in (first, more, larger, wrong)] == 3 * ["stopped"] + ["failed"]
        assert more.effect.startswith("max-running-requests 48 → 256: 6,251 → 14,805 tok/s (+137 %")
        assert "no difference beyond chance" in larger.effect
        assert (
            wrong.settings["attention-backend"] == "flashinfer" and "BatchPrefill" in wrong.reason
        )
        assert back.settings == larger.settings, "the last good ones"
        assert larger.kv_tokens is not None and more.kv_tokens is not None
        assert larger.kv_tokens > 1.5 * more.kv_tokens
        assert [m.text for m in await client.marks(time.start) if m.kind == "retune"] == [
            "sglang: max-running-requests 48 → 256",
            "sglang: mem-fraction-static 0.3 → 0.5",
            "sglang: attention-backend triton → flashinfer",
        ]
        held = []
        for launch in (first, more, larger):
            assert launch.ready_at is not None
            time.seek(launch.ready_at + 20)
            status = await client.status()
            (server,), (gpu,) = status.servers, status.gpus
            assert server.state == "ready" and server.running is not None
            assert gpu.util and gpu.power_w and gpu.power_w > 100 and gpu.sm_clock
            assert gpu.mem_used is not None
            held.append((server.running, gpu.mem_used))
        # Settings show where they act: requests at a time, and the memory of the GPU.
        assert held[0][0] == 48 and held[1][0] > 200
        assert held[1][1] < 50e9 and held[2][1] > 70e9
        time.seek(launch.ended_at + 5)
        (gpu,) = (await client.status()).gpus
        assert gpu.mem_used is not None and gpu.mem_used < 1e9, "the memory came back"
    finally:
        await client.close()
