"""What is read of a run's files about its phases and its failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle_tui import lengths
from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError
from eagle_tui.pipeline.worker import next_attempt
from eagle_tui.protocol import HISTOGRAM_EDGES
from eagle_tui.reader import failures, phases
from eagle_tui.reader.files import RunFiles
from eagle_tui.rundir.paths import RunDir


def _rows(path: Path, rows: list[dict[str, Any]], torn: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + torn, encoding="utf-8")


def _dead(id: str, at: float, reason: str, *, final: bool, state: str = "failed") -> dict[str, Any]:
    return {"id": id, "at": at, "reason": reason, "final": final, "state": state}


def test_failures_are_counted_by_reason_and_the_newest_row_of_a_prompt_decides(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.dead.jsonl"
    rows = [
        _dead("a", 1, "no answer in 30 s", final=True),
        _dead("b", 2, "no answer in 600 s", final=True),
        _dead("c", 3, "HTTP 400: too long", final=True, state="over_context"),
        _dead("a", 4, "retried by the operator", final=False),
    ]
    _rows(path, rows, torn='{"id": "to')
    found = failures.count(path)
    assert [(f.state, f.reason, f.rows, f.given_up) for f in found] == [
        ("failed", "no answer in 600 s", 2, 1),
        ("over_context", "HTTP 400: too long", 1, 1),
        ("failed", "retried by the operator", 1, 0),
    ]
    assert [f.reason for f in failures.count(path, until=1.5)] == ["no answer in 30 s"]
    assert failures.count(tmp_path / "none.jsonl") == []


def test_phases_tell_what_they_made_and_how_their_attempts_ended(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    made = {
        "phase": "merge", "made_at": 50.0, "attempt": 2, "inputs": {"output of generate": "abc"},
        "counts": {"rows": 12}, "outputs": {f"f{i:03}": 10 for i in range(300)}, "early": "",
    }  # fmt: skip
    run.manifest("merge").parent.mkdir(parents=True)
    run.manifest("merge").write_text(json.dumps(made), encoding="utf-8")
    _rows(run.events("merge", 1), [{"e": "start", "at": 10.0}, {"e": "progress", "at": 20.0}], "{")
    ended = {"e": "end", "at": 50.0, "outcome": "done", "reason": ""}
    _rows(run.events("merge", 2), [{"e": "start", "at": 30.0}, ended])
    _rows(run.events("merge", 3), [], torn="no JSON\n")

    merge = next(record for record in phases.read(run) if record.phase == "merge")
    assert merge.manifest is not None
    assert (merge.manifest.files, merge.manifest.bytes) == (300, 3000)
    assert len(merge.manifest.outputs) == phases.MOST_OUTPUTS
    assert [(a.number, a.began_at, a.last_at, a.ended, a.outcome) for a in merge.attempts] == [
        (1, 10.0, 20.0, False, ""), (2, 30.0, 50.0, True, "done"),
    ]  # fmt: skip
    then = next(record for record in phases.read(run, until=40.0) if record.phase == "merge")
    assert then.manifest is None
    assert [(a.number, a.last_at) for a in then.attempts] == [(1, 20.0), (2, None)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"made_at": "soon"}', "attempt"),
        ("[]", "no manifest"),
        ('{"outputs": [1]}', "no manifest"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_an_error(tmp_path: Path, body: str, words: str) -> None:
    run = RunDir(tmp_path)
    run.manifest("merge").parent.mkdir(parents=True)
    run.manifest("merge").write_text(body, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        phases.read(run)


def test_fields_of_the_wrong_kind_are_left_out(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    made = {"made_at": 5, "attempt": 1, "outputs": {"a": "x", "b": 3}, "counts": [], "inputs": 1}
    _rows(run.manifest("merge"), [made])
    manifest = next(record for record in phases.read(run) if record.phase == "merge").manifest
    assert manifest is not None
    assert (manifest.files, manifest.bytes, manifest.counts, manifest.inputs) == (2, 3, {}, {})
    _rows(run.dead("d"), [{"id": [], "state": {}, "reason": None, "at": 1.0}])
    assert failures.count(run.dead("d")) == []


async def test_a_reader_that_meets_what_nobody_thought_of_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("odd")

    monkeypatch.setattr(phases, "read", fail)
    with pytest.raises(ClientError, match=f"{tmp_path}.*odd"):
        await RunFiles(RunDir(tmp_path)).phase_records()


async def test_what_keeps_a_supervisor_from_being_started_is_told(tmp_path: Path) -> None:
    """The system refuses to read its last status."""
    (tmp_path / "status.json").symlink_to("status.json")
    async with SocketClient(RunDir(tmp_path)) as client:
        with pytest.raises(ClientError, match=r"status\.json: .*symbolic links"):
            await client.events(0, 1)


def test_a_histogram_counts_every_response_once() -> None:
    counts = {1: 2, 15: 1, 16: 4, 22: 1, 23: 1, 65_535: 1, 65_536: 7, 10**6: 1}
    bars = lengths.histogram(counts, HISTOGRAM_EDGES)
    assert len(bars) == len(HISTOGRAM_EDGES) + 1 and sum(bars) == sum(counts.values())
    assert bars[:3] == (3, 5, 1) and bars[-2:] == (1, 8)
    assert lengths.histogram({}, HISTOGRAM_EDGES) == ()


def test_what_lies_beside_the_event_logs_is_none(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    for name in ("merge-0003.jsonl", "merge-0009.bak.jsonl", f"merge-{'9' * 20}.jsonl"):
        _rows(tmp_path / "events" / name, [])
    assert run.event_logs("merge") == {3: run.events("merge", 3)}
    assert next_attempt(run, "merge") == 4
