"""`eagle-tui demo --headless`: all six phases for real, smaller than the demo itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Run

from eagle_tui.protocol import Status
from eagle_tui.reach import last_status


@pytest.mark.slow
def test_all_six_phases(new_run: Callable[..., Run], tmp_path: Path) -> None:
    run = new_run(
        'run.phases=["prepare", "generate", "merge", "extract", "train", "bench"]',
        "train.epochs=2",
        "bench.prompts=2",
        "bench.max_new_tokens=64",
        rows=14,
    )
    done = run.eagle("demo", str(run.root), "--headless", check=False, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr + run.story()
    assert "every phase is done" in done.stdout
    report = json.loads((run.dir.phase("bench") / "report.json").read_text())
    assert report["schema"] == "eagle-tui-bench-1"
    assert report["greedy_identical"] is True
    assert report["accept_length"]["overall"] >= 1.0
    assert set(report["accept_length"]["by_dataset"]) <= {d.name for d in last(run).datasets}
    assert report["verdict"]
    found = run.eagle("result", str(run.root)).stdout
    assert report["verdict"] in found and "bench/report.md" in found
    brief = last(run).result
    assert "× as fast with the drafter; accept length" in brief
    assert f"result: {brief}" in done.stdout
    assert f"done: {brief}" in run.eagle("status", str(run.root), "--markdown").stdout
    exported = json.loads((run.dir.phase("train") / "export" / "config.json").read_text())
    assert exported["architectures"] == ["LlamaForCausalLMEagle3"]
    assert (run.dir.phase("train") / "export" / "README.md").is_file()
    # Headless ends the run: nothing is left of it.
    assert last(run).supervisor.state == "stopped"
    assert run.processes("supervisor") == []


def last(run: Run) -> Status:
    """The snapshot that the supervisor left."""
    status = last_status(run.dir)
    assert status is not None
    return status
