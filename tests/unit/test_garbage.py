"""Files of a run directory that somebody wrote over: JSON, but not what belongs there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagle_tui.client_api import ClientError
from eagle_tui.clock import ManualClock
from eagle_tui.config.model import RunConfig
from eagle_tui.pipeline.generation.answers import Trouble, read_outcome
from eagle_tui.protocol import RunStatus, Status, SupervisorStatus
from eagle_tui.reach import last_status
from eagle_tui.reader import responses
from eagle_tui.rundir import atomic, desired, jsonl
from eagle_tui.rundir.desired import Desired
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.server.context import Context
from eagle_tui.supervisor.store import Store

GARBAGE = ["[]", "1", "null", '"x"', "{", '{"schema": 99}', '{"run": [], "supervisor": 3}']


@pytest.mark.parametrize("text", GARBAGE)
async def test_orders_that_cannot_be_read_do_not_keep_a_run_down(
    text: str, tmp_path: Path, smallest: RunConfig
) -> None:
    run, said = RunDir.at(tmp_path), []
    run.desired.write_text(text)
    clock, store = ManualClock(1.0), Store(run.state)

    def say(*words: Any) -> None:
        said.append(words)

    context = Context(run, store, clock, httpx.AsyncClient(), say, tuple)
    board = Board(run, smallest, store, clock, context)
    assert board.desired.pause == "no"
    unreadable = text not in ("null", GARBAGE[-2], GARBAGE[-1])
    assert any("desired.json" in words[2] for words in said) is unreadable


async def test_orders_outlive_the_state_file(tmp_path: Path, smallest: RunConfig) -> None:
    run, clock = RunDir.at(tmp_path), ManualClock(1.0)
    run.desired.write_text(Desired(pause="hold").model_dump_json())
    store = Store(run.state)
    context = Context(run, store, clock, httpx.AsyncClient(), lambda *_: None, tuple)
    assert Board(run, smallest, store, clock, context).desired.pause == "hold"


@pytest.mark.parametrize("text", [text for text in GARBAGE if text != "null"])
def test_a_snapshot_that_cannot_be_read_is_told_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(text)
    with pytest.raises(ClientError, match=r"status\.json: [^\n]*; move it away, or `eagle-tui up`"):
        last_status(RunDir.at(tmp_path))


def test_a_snapshot_of_another_version_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    whole = Status(
        at=5.0,
        seq=1,
        run=RunStatus(name="n", dir="/d", target="t"),
        supervisor=SupervisorStatus(state="stopped"),
    ).to_json()
    theirs = {**whole, "schema": 99, "phases": [{"new": 1}], "at": None}
    (tmp_path / "status.json").write_text(json.dumps(theirs))
    found = last_status(RunDir.at(tmp_path))
    assert found is not None
    assert (found.run.name, found.supervisor.state, found.phases) == ("n", "stopped", ())
    assert "newer" in found.alerts[0].sentence


DEEP = b"[" * 100_000
"""Brackets in which Python's reader of JSON gives up with another error than for all else."""


def test_brackets_without_end_are_garbage_like_any_other(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_bytes(DEEP + b"\n" + b'{"e":"note"}\n')
    assert jsonl.Tail(log).read() == [{"e": "note"}]
    with pytest.raises(ValueError, match="nested too deeply"):
        list(jsonl.rows(log))
    with pytest.raises(ValueError, match=r"events\.jsonl: not valid JSON"):
        atomic.read_json(log)
    assert responses.parse(DEEP) is None


@pytest.mark.parametrize("status", [200, 500])
def test_a_server_that_answers_brackets(status: int) -> None:
    outcome = read_outcome(status, DEEP)
    assert isinstance(outcome, Trouble)
    assert outcome.kind == ("garbled" if status == 200 else "server_error")


@pytest.mark.parametrize("text", ["[]", "{", '{"pause": 5}'])
def test_wishes_that_cannot_be_read_leave_those_before_in_force(
    text: str, tmp_path: Path, smallest: RunConfig
) -> None:
    run = RunDir.at(tmp_path)
    desired.write(run.desired, Desired(finish=("train",)))
    watch = desired.Watch(run.desired, smallest)
    run.desired.write_text(text)
    watch.follow()
    assert watch.desired.finish == ("train",)
    desired.write(run.desired, Desired(finish=()))
    watch.follow()
    assert watch.desired.finish == ()
