"""The benchmark through a server: sweep, pairing, what fails, what goes on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from eagle_tui import proc
from eagle_tui.pipeline import bench
from eagle_tui.pipeline.benchmark.sweep import Variant, variants
from eagle_tui.pipeline.worker import main
from eagle_tui.rundir import atomic, desired, jsonl
from eagle_tui.rundir.desired import Desired
from eagle_tui.rundir.paths import RunDir

from .world import make_drafter, make_run, make_target

FAKE = Path(__file__).parent / "fake_sglang.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_target(tmp_path_factory.mktemp("target"))


def served_run(root: Path, place: Path, server: str = "", **settings: Any) -> RunDir:
    """A run whose server is the stand-in."""
    options = {"engine": "sglang", "prompts": 4, "max_new_tokens": 24, **settings}
    run = make_run(root, make_drafter(place), place, **options)
    text = run.config.read_text().replace(
        'url = "http://localhost:1"',
        f"engine = 'sglang'\ncommand = ['{sys.executable}', '{FAKE}']\n"
        f"stop_timeout_s = 5.0\nstart_timeout_s = 30.0\n{server}",
    )
    run.config.write_text(text)
    return run


def events(run: RunDir) -> list[dict[str, Any]]:
    logs = sorted((run.root / "events").glob("bench-*.jsonl"))
    return list(jsonl.rows(logs[-1]))


def run_bench(run: RunDir) -> int:
    return main("bench", bench.body, [str(run.root)])


def report(run: RunDir) -> dict[str, Any]:
    return dict(atomic.read_json(run.phase("bench") / "report.json"))


def starts(log: Path) -> list[list[str]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_baseline_and_drafter_in_turn_over_the_sweep(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "starts"
    monkeypatch.setenv("FAKE_LOG", str(log))
    monkeypatch.setenv("FAKE_FAIL", "--speculative-num-steps 5")
    monkeypatch.setenv("FAKE_PASS_S", "0.006")
    server = "[server.flags]\ndtype = 'float32'\nspeculative-num-steps = 9\n"
    run = served_run(tmp_path / "run", place, server, steps=[1, 3, 5], concurrency=[1, 4])
    # What was retuned holds here, too; a proxy of the machine's is never asked for our server.
    wanted = Desired(tuned={"server": {"mem-fraction-static": "0.7", "enable-mixed-chunk": "true"}})
    desired.write(run.desired, wanted)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert run_bench(run) == 0, events(run)[-1]
    first, *others = starts(log)
    assert first[first.index("--mem-fraction-static") + 1] == "0.7"
    assert "--enable-mixed-chunk" in first
    assert "--dtype" in first and not any(word.startswith("--speculative") for word in first)
    assert [f[f.index("--speculative-num-steps") + 1] for f in others] == ["1", "3", "5"]
    assert all(f[f.index("--speculative-algorithm") + 1] == "EAGLE3" for f in others)
    assert all(f[f.index("--speculative-num-draft-tokens") + 1] in ("2", "4", "6") for f in others)

    body = report(run)
    # 24 tokens; rounds of 0 and 3 accepted drafts in turn: 10 for the 23 after the first.
    assert body["settings"]["steps"] == 3
    assert body["accept_length"]["overall"] == pytest.approx(24 / 10, abs=0.01)
    assert set(body["accept_length"]["by_dataset"]) == {"a", "b"}
    assert body["speedup"]["mean"] > 1.2 and body["speedup"]["low"] > 1
    for one in body["by_dataset"].values():
        gain, quotient = one["speedup"], one["drafter_tok_s"] / one["baseline_tok_s"]
        assert gain["low"] <= gain["mean"] <= gain["high"]
        assert gain["mean"] == pytest.approx(quotient, rel=0.01)
    assert body["greedy_identical"] is True
    whole = {"compared": 8, "equal": 8, "ties": 0, "example": ""}
    here = body["settings"]["concurrency"]
    assert body["identity"] == {
        **whole,
        "alone": {"concurrency": 5 - here, "equal": 8},
    }  # of 1 and 4 the other one
    assert "a gain of" in body["verdict"] and "at concurrency" in body["verdict"]
    done = [s for s in body["sweep"] if not s["failed"]]
    assert [(s["steps"], s["concurrency"]) for s in done] == [(1, 1), (1, 4), (3, 1), (3, 4)]
    (failed,) = [s for s in body["sweep"] if s["failed"]]
    assert failed["steps"] == 5 and "this setting is beyond me" in failed["failed"]
    assert "failed: the server ended" in (run.phase("bench") / "report.md").read_text()
    assert body["settings"]["flags"]["dtype"] == "float32"
    assert not (run.phase("bench") / "server.json").exists()
    progress = [e for e in events(run) if e["e"] == "progress"]
    assert progress[-1]["total"] == 4 * (8 + 8) and progress[-1]["done"] == 3 * (8 + 8)


def test_other_output_is_told_and_a_tie_is_none(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in says that its two best tokens are 0.1 apart everywhere: a tie in bfloat16."""
    monkeypatch.setenv("FAKE_DIFFER", "1")
    run = served_run(tmp_path / "run", place)
    assert run_bench(run) == 0
    body = report(run)
    assert body["identity"]["ties"] == 8 and body["greedy_identical"] is True
    monkeypatch.setattr("eagle_tui.pipeline.benchmark.served.TIE_GAP", 0.05)
    assert run_bench(run) == 0
    body = report(run)
    assert body["greedy_identical"] is False and "the output differs" in body["verdict"]
    assert "from token 2, gap 0.1" in body["identity"]["example"]


def test_the_wrong_algorithm_is_refused_with_the_fix(tmp_path: Path, place: Path) -> None:
    server = "[server.flags]\nspeculative_algorithm = 'EAGLE'\n"
    run = served_run(tmp_path / "run", place, server)
    assert run_bench(run) == 3
    assert "Use --speculative-algorithm EAGLE3" in events(run)[-1]["reason"]
    text = run.config.read_text().replace("'EAGLE'", "'EAGLE3'")
    run.config.write_text(text.replace("fake_sglang.py'", "fake_sglang.py', '--speculative-x'"))
    assert run_bench(run) == 3
    assert "speculates already" in events(run)[-1]["reason"]


def test_what_cannot_be_measured_fails_with_the_servers_words(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = served_run(tmp_path / "run", place)
    monkeypatch.setenv("FAKE_FAIL", "--speculative-num-steps 3")
    assert run_bench(run) == 1
    assert "No setting of the drafter" in events(run)[-1]["reason"]
    assert "this setting is beyond me" in events(run)[-1]["reason"]
    (run.phase("bench") / "measured.jsonl").unlink()
    monkeypatch.setenv("FAKE_FAIL", "--model-path")
    assert run_bench(run) == 1
    assert "The target without the drafter" in events(run)[-1]["reason"]
    text = run.config.read_text()
    run.config.write_text(
        text[: text.index("engine = 'sglang'\ncommand")]
        + text[text.index("stop_timeout_s") :].replace(
            "start_timeout_s = 30.0", "url = 'http://localhost:1'"
        )
    )
    assert run_bench(run) == 3
    assert "no SGLang server that could be started" in events(run)[-1]["reason"]


def notes(run: RunDir) -> str:
    return "\n".join(e["text"] for e in events(run) if e["e"] == "note")


def test_a_server_that_dies_at_work_is_started_once_more(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "starts"
    monkeypatch.setenv("FAKE_LOG", str(log))
    monkeypatch.setenv("FAKE_DIE", "2")
    monkeypatch.setenv("FAKE_DIE_ONCE", str(tmp_path / "died"))
    run = served_run(tmp_path / "run", place, concurrency=[1, 2])
    assert run_bench(run) == 0, events(run)[-1]
    assert len(starts(log)) == 3  # the target alone twice
    assert "baseline, 2 at a time: the server ended" in notes(run) and "out of luck" in notes(run)
    sweep = report(run)["sweep"]
    assert [(s["concurrency"], s["failed"]) for s in sweep] == [(1, ""), (2, "")]


def test_what_cannot_be_had_at_one_concurrency_leaves_the_others(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "starts"
    monkeypatch.setenv("FAKE_LOG", str(log))
    monkeypatch.setenv("FAKE_DIE", "3")
    monkeypatch.setenv("FAKE_PASS_S", "0.003")
    run = served_run(tmp_path / "run", place, concurrency=[1, 4, 2])
    assert run_bench(run) == 0, events(run)[-1]
    # The target alone dies twice at four; its third server does the two. So nothing is measured
    # with the drafter at four.
    assert len(starts(log)) == 4
    body = report(run)
    assert [(s["concurrency"], s["failed"]) for s in body["sweep"]] == [(1, ""), (2, "")]
    assert "baseline, 4 at a time, could not be measured" in notes(run)
    progress = [e["done"] for e in events(run) if e["e"] == "progress"]
    assert progress[-1] == 4 * 8


@pytest.mark.parametrize(
    ("quiet", "accept"), [("counts", None), ("length", pytest.approx(24 / 10, abs=0.01))]
)
def test_a_server_that_tells_less_of_its_rounds(
    quiet: str, accept: Any, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_QUIET", quiet)
    run = served_run(tmp_path / "run", place)
    assert run_bench(run) == 0, events(run)[-1]
    body = report(run)
    assert body["accept_length"]["overall"] == accept
    assert body["accept_length"]["conditional"] == [None, None, None]
    assert ("accept length stays unknown" in notes(run)) == (accept is None)


def test_a_server_that_does_not_speculate_is_no_measurement(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "starts"
    monkeypatch.setenv("FAKE_LOG", str(log))
    monkeypatch.setenv("FAKE_QUIET", "all")
    run = served_run(tmp_path / "run", place)
    assert run_bench(run) == 1
    assert "it does not speculate, although it has a drafter" in events(run)[-1]["reason"]
    assert len(starts(log)) == 2


def test_speed_is_kept_where_ties_cannot_be_asked_for(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NO_LOGPROBS", "1")
    monkeypatch.setenv("FAKE_DIFFER", "1")
    run = served_run(tmp_path / "run", place)
    assert run_bench(run) == 0, events(run)[-1]
    assert "could not be asked" in notes(run)
    assert report(run)["greedy_identical"] is False


def test_after_a_kill_it_goes_on_and_ends_the_server_that_was_left(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "starts"
    monkeypatch.setenv("FAKE_LOG", str(log))
    run = served_run(tmp_path / "run", place, steps=[1, 3])
    env = {**os.environ, "FAKE_PASS_S": "0.01", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, "-m", "eagle_tui.pipeline.bench", str(run.root)], env=env
    )
    measured = run.phase("bench") / "measured.jsonl"
    end = time.monotonic() + 60
    while not (measured.exists() and measured.stat().st_size and len(starts(log)) == 2):
        assert time.monotonic() < end
        time.sleep(0.05)
    record = run.phase("bench") / "server.json"
    while (body := atomic.read_json(record)) is None:
        time.sleep(0.02)
    left = proc.Process(body["pid"], body["started"])
    child.kill()
    child.wait()
    assert proc.alive(left)
    assert run_bench(run) == 0
    assert not proc.alive(left)
    assert len(starts(log)) == 4  # baseline, steps 1 (killed), steps 1, steps 3
    assert {s["steps"] for s in report(run)["sweep"]} == {1, 3}


def test_asked_to_stop_it_stops_its_server(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = served_run(tmp_path / "run", place)
    env = {**os.environ, "FAKE_PASS_S": "0.1", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, "-m", "eagle_tui.pipeline.bench", str(run.root)], env=env
    )
    record = run.phase("bench") / "server.json"
    end = time.monotonic() + 60
    while not record.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    body = atomic.read_json(record)
    time.sleep(1.0)
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 0
    assert not proc.alive(proc.Process(body["pid"], body["started"]))
    assert events(run)[-1]["outcome"] == "stopped"


def test_every_combination_is_tried_once() -> None:
    assert variants([3], [1], []) == [Variant(3, 1, 4)]
    assert variants([3, 5], [1], [4, 8, 16]) == [Variant(3, 1, 4), Variant(5, 1, 6)]
    assert variants([2], [1, 4], [8, 16, 64]) == [
        Variant(2, 1, 3),
        Variant(2, 4, 8),
        Variant(2, 4, 16),
    ]
    assert variants([3], [4], []) == [Variant(3, 4, 13)]
