"""The phase by the reference decoder: report, verdict, model card, refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.pipeline import bench
from eagle_tui.pipeline.worker import main
from eagle_tui.rundir import atomic, jsonl, manifest
from eagle_tui.rundir.paths import RunDir

from .world import load, make_drafter, make_run, make_target, train


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_target(tmp_path_factory.mktemp("target"))


def events(run: RunDir) -> list[dict[str, Any]]:
    logs = sorted((run.root / "events").glob("bench-*.jsonl"))
    return list(jsonl.rows(logs[-1]))


def run_bench(run: RunDir) -> int:
    return main("bench", bench.body, [str(run.root)])


def test_report_of_a_trained_drafter(tmp_path: Path, place: Path) -> None:
    drafter = train(make_drafter(place), load(place))
    run = make_run(tmp_path / "run", drafter, place, prompts=5, max_new_tokens=24, steps=[1, 3])
    assert run_bench(run) == 0, events(run)[-1]
    body = json.loads((run.phase("bench") / "report.json").read_text())
    assert {
        *("schema", "accept_length", "simulated_accept_length", "greedy_identical", "baseline"),
        *("drafter", "speedup", "settings", "verdict"),
    } <= set(body)
    assert body["schema"] == "eagle-tui-bench-1"
    assert body["accept_length"]["overall"] > 1.3
    assert set(body["accept_length"]["by_dataset"]) == {"a", "b"}
    assert body["simulated_accept_length"] == 1.5
    assert body["greedy_identical"] is True
    assert body["identity"]["compared"] == body["identity"]["equal"] == 10
    assert body["baseline"]["tok_s"] > 0 and body["drafter"]["tok_s"] > 0
    assert body["speedup"]["low"] <= body["speedup"]["mean"] <= body["speedup"]["high"]
    assert {s["steps"] for s in body["sweep"]} == {1, 3}
    best = max(body["sweep"], key=lambda s: s["speedup"]["mean"])
    assert body["settings"]["steps"] == best["steps"]
    conditional = body["accept_length"]["conditional"]
    assert len(conditional) == best["steps"] and all(0 <= c <= 1 for c in conditional)

    text = (run.phase("bench") / "report.md").read_text()
    assert body["verdict"] in text and "| `a` |" in text
    card = (run.phase("train") / "export" / "README.md").read_text()
    assert "1, 2, 3" in card and str(place) in card and "merge: output" in card
    made = manifest.read(run, "bench")
    assert made is not None and made.counts["accept_length"] == body["accept_length"]["overall"]
    told = events(run)
    assert [e["done"] for e in told if e["e"] == "progress"][-1] == 10
    figures = [e["values"] for e in told if e["e"] == "metric"][-1]
    assert set(figures) == {"accept", "tok_s"}
    assert body["verdict"] in [e["text"] for e in told if e["e"] == "note"]


def test_a_drafter_that_does_nothing_is_called_so(tmp_path: Path, place: Path) -> None:
    drafter = make_drafter(place, 16, seed=1)
    run = make_run(tmp_path / "run", drafter, place, prompts=3, max_new_tokens=16)
    assert run_bench(run) == 0
    body = atomic.read_json(run.phase("bench") / "report.json")
    assert body["accept_length"]["overall"] <= 1.05 and body["greedy_identical"] is True
    assert "something is set up wrongly" in body["verdict"]
    assert any("d2t" in hint for hint in body["hints"])
    assert "Where to look" in (run.phase("bench") / "report.md").read_text()


def test_sampling_claims_no_identity(tmp_path: Path, place: Path) -> None:
    drafter = make_drafter(place, seed=1)
    run = make_run(tmp_path / "run", drafter, place, prompts=2, max_new_tokens=12, temperature=0.8)
    assert run_bench(run) == 0
    body = atomic.read_json(run.phase("bench") / "report.json")
    assert body["greedy_identical"] is None and body["settings"]["temperature"] == 0.8
    assert "Sampled" in (run.phase("bench") / "report.md").read_text()


def test_refusals_say_what_to_do(tmp_path: Path, place: Path) -> None:
    drafter = make_drafter(place)
    run = make_run(tmp_path / "run", drafter, place, max_new_tokens=16)
    export = run.phase("train") / "export"
    shutil.move(export, tmp_path / "kept")
    assert run_bench(run) == 3
    assert "Run the train phase first" in events(run)[-1]["reason"]

    shutil.copytree(tmp_path / "kept", export)
    body = json.loads((export / "config.json").read_text())
    del body["eagle_config"]
    (export / "config.json").write_text(json.dumps(body))
    assert run_bench(run) == 3
    assert "eagle_config" in events(run)[-1]["reason"]

    shutil.rmtree(export)
    shutil.copytree(tmp_path / "kept", export)
    made = manifest.read(run, "merge")
    assert made is not None
    manifest.write(run, made.model_copy(update={"outputs": {}}))
    assert run_bench(run) == 3
    assert "merge.val_fraction" in events(run)[-1]["reason"]
