"""A state file that was lost: what the run's other files tell is there again. And how long it was
up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import proc
from eagle_tui.clock import ManualClock
from eagle_tui.config import PHASES, parse_config
from eagle_tui.notices import notices
from eagle_tui.protocol import HostStatus, PhaseExit, PhaseStatus, Status
from eagle_tui.rundir import manifest
from eagle_tui.rundir.jsonl import Appender
from eagle_tui.rundir.manifest import Manifest
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import recall, reconcile
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.server.context import Context
from eagle_tui.supervisor.status import StatusMaker, _over_at
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.uptime import Uptime, within

NOW = 1_800_000_000.0
BEGAN = NOW - 5000.0
CONFIG = parse_config(
    '[run]\nname = "r"\nphases = ["prepare", "generate", "merge"]\n'
    '[target]\nmodel = "builtin:tiny"\n[[server]]\nengine = "embedded"\n'
    '[[dataset]]\nname = "a"\nsource = "a.jsonl"\n[[dataset]]\nname = "b"\nsource = "b.jsonl"\n'
)
COUNTS: dict[str, dict[str, Any]] = {
    "prepare": {"a": {"rows": 9, "kept": 7}, "b": {"kept": 3}},
    "generate": {
        "a": {"prompts": 7, "states": {"complete": 6, "loop": 1}, "tokens": 700, "reasoned": 5},
        "b": {"prompts": 3, "states": {"complete": 3}, "tokens": 30},
    },
    "merge": {"train": {"rows": 8}, "val": {"rows": 1}},
}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Every phase is done, by its manifest."""
    found = RunDir.at(tmp_path)
    for phase, counts in COUNTS.items():
        made = Manifest(
            phase=phase,
            made_at=NOW - 100,
            attempt=1,
            inputs=manifest.inputs_of(CONFIG, found, phase),
            counts=counts,
        )
        manifest.write(found, made)
    return found


def log(
    run: RunDir,
    phase: str,
    number: int,
    at: float,
    *events: dict[str, object],
    process: proc.Process = proc.Process(1, -1),  # noqa: B008 - it is frozen
) -> None:
    out = Appender(run.events(phase, number))
    start = {"e": "start", "pid": process.pid, "started": process.started}
    for event in (start, *events):
        out.append({"at": at, **event})
    out.close()


def logs(run: RunDir) -> None:
    """The event logs of the phases: prepare was killed once."""
    log(run, "prepare", 1, BEGAN, {"e": "progress", "done": 2, "total": 10, "unit": "rows"})
    end = {"e": "end", "outcome": "done", "reason": ""}
    log(
        run, "prepare", 2, BEGAN + 100,
        {"e": "dataset", "name": "a", "prompts": 7},
        {"e": "dataset", "name": "b", "prompts": 3},
        {"e": "progress", "done": 10, "total": 10, "unit": "rows"},
        {**end, "at": BEGAN + 160},
    )  # fmt: skip
    told = [
        {"e": "dataset", "name": name, "prompts": n, "states": {"complete": n}, "tokens": 10 * n,
         "lengths": {"10": n}, "reasoned": n, "reasoning_tokens": n}
        for name, n in (("a", 7), ("b", 3))
    ]  # fmt: skip
    log(run, "generate", 1, BEGAN + 200, *told, {**end, "at": BEGAN + 500})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def board(run: RunDir, clock: ManualClock) -> Callable[[], Board]:
    """Makes the board of a supervisor that begins now."""

    def make() -> Board:
        store = Store(run.state)
        context = Context(run, store, clock, httpx.AsyncClient(), lambda *_: None, tuple)
        made = Board(run, CONFIG, store, clock, context)
        reconcile.decide_phases(made)
        return made

    return make


def look(board: Board) -> Status:
    return StatusMaker(board).make(HostStatus(), ())


def phases(status: Status) -> dict[str, PhaseStatus]:
    return {phase.name: phase for phase in status.phases}


async def test_attempts_come_back_from_the_event_logs(
    run: RunDir, board: Callable[[], Board]
) -> None:
    logs(run)
    run.state.write_bytes(b"")
    status = look(board())
    found = phases(status)
    assert (found["prepare"].state, found["prepare"].attempt) == ("done", 2)
    assert (found["prepare"].done, found["prepare"].unit) == (10, "rows")
    assert found["prepare"].elapsed_s == pytest.approx(60.0)
    assert (found["generate"].done, found["generate"].total) == (10, 10)
    assert [(row.name, row.complete, row.tokens_mean) for row in status.datasets] == [
        ("a", 7, 10.0), ("b", 3, 10.0),
    ]  # fmt: skip
    assert found["prepare"].last_exit is not None
    assert found["prepare"].last_exit.outcome == "done"
    assert status.run.started == BEGAN
    again = look(board())
    assert phases(again) == found, "once recalled it is kept"
    store = Store(run.state)
    assert [a.outcome for a in store.attempts("phase", "prepare")] == ["died", "done"]
    store.close()


async def test_manifests_alone_tell_how_much_was_done(
    run: RunDir, board: Callable[[], Board]
) -> None:
    status = look(board())
    found = phases(status)
    assert {name: (found[name].done, found[name].unit) for name in COUNTS} == {
        "prepare": (10, "rows"), "generate": (10, "responses"), "merge": (9, "rows"),
    }  # fmt: skip
    assert found["train"].done is None
    a, b = status.datasets
    assert (a.prompts, a.complete, a.loop, a.tokens) == (7, 6, 1, 700)
    assert (b.prompts, b.complete, b.tokens, b.tokens_mean) == (3, 3, 30, None)


async def test_the_status_says_what_the_benchmark_found_while_that_is_done(
    run: RunDir, board: Callable[[], Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CONFIG.model_copy(
        update={"run": CONFIG.run.model_copy(update={"phases": [*COUNTS, "bench"]})}
    )
    monkeypatch.setitem(globals(), "CONFIG", config)
    counts = {"accept_length": 2.6, "speedup": {"mean": 1.2, "low": 1.1, "high": 1.3}}
    assert look(board()).result == ""
    inputs = manifest.inputs_of(config, run, "bench")
    made = Manifest(phase="bench", made_at=NOW, attempt=1, inputs=inputs, counts=counts)
    manifest.write(run, made)
    status = look(board())
    assert status.result == "a gain, 1.10–1.30 × as fast with the drafter; accept length 2.60"
    (done,) = [alert for alert in status.alerts if alert.rule == "done"]
    assert done.sentence == f"done: {status.result}" and "eagle-tui result" in done.remedy
    (told,) = notices(status.model_copy(update={"alerts": ()}), status, False)
    assert told.text == f"every phase is done: {status.result}"
    manifest.write(run, made.model_copy(update={"inputs": {**inputs, "x": "y"}}))
    assert look(board()).result == "", "it is of another state of the run"


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, proc.TOKEN_ENV: "its own token"}
    child = subprocess.Popen(["sleep", "60"], env=env, start_new_session=True)
    yield child
    child.kill()
    child.wait()


async def test_a_worker_that_still_runs_is_taken_over(
    run: RunDir, board: Callable[[], Board], worker: subprocess.Popen[bytes]
) -> None:
    """And no second one is started, which its lock would turn away."""
    process = proc.identify(worker.pid)
    assert process is not None
    log(run, "merge", 4, BEGAN, process=process)
    made = board()
    slot = made.slots["merge"]
    assert slot.alive and slot.number == 4
    (attempt,) = made.store.attempts("phase", "merge")
    assert attempt.token == "its own token"


JSONISH = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from(["rows", "kept", "states", "x"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["a", "train", "steps"]), JSONISH), st.sampled_from(PHASES))
def test_counts_of_any_shape_stop_nothing(counts: dict[str, object], phase: str) -> None:
    recall.done(phase, counts)
    recall.datasets(counts)
    for item in counts.values():
        assert recall.prompts(item) is not None


SPANS = st.lists(st.integers(0, 1000), max_size=8).map(
    lambda times: list(zip(*[iter(sorted(times))] * 2, strict=False))
)


@given(SPANS, st.integers(0, 1000), st.integers(0, 1000))
def test_time_within_spans(spans: list[tuple[float, float]], start: int, end: int) -> None:
    seconds = {s for a, b in spans for s in range(int(a), int(b))}
    assert within(spans, start, end) == len([s for s in seconds if start <= s < end])


def test_time_while_it_was_down_is_told_apart(run: RunDir) -> None:
    clock = ManualClock(NOW)
    store = Store(run.state)
    first = Uptime(run, store, clock)
    first.woke(0.0, NOW)
    assert (first.started, first.elapsed_s(NOW + 60), first.down_s(NOW + 60)) == (NOW, 60.0, 0.0)
    # Down for an hour after ten minutes; up again, and killed and back within a second.
    Uptime(run, store, clock).woke(NOW + 600, NOW + 4200)
    Uptime(run, store, clock).woke(NOW + 4300, NOW + 4301)
    now = Uptime(run, store, clock)
    assert (now.elapsed_s(NOW + 4800), now.down_s(NOW + 4800)) == (1200.0, 3600.0)
    assert now.elapsed_s(NOW + 500) == 500.0, "a run that was over before that loses nothing"
    # A clock that was set back makes nothing negative.
    now.woke(NOW + 9000, NOW + 5000)
    assert now.elapsed_s(NOW - 100) == 0.0 and now.down_s(NOW + 4800) == 3600.0
    store.close()


async def test_a_clock_that_is_set_back_makes_the_run_no_younger(
    run: RunDir, board: Callable[[], Board], clock: ManualClock
) -> None:
    for path in run.root.glob("*/manifest.json"):
        path.unlink()
    made = board()
    clock.advance(600.0)
    clock.set_wall(NOW - 3600.0)
    assert look(made).run.elapsed_s == pytest.approx(600.0)
    clock.set_wall(NOW + 86_400.0)
    assert look(made).run.elapsed_s == pytest.approx(600.0)


def test_a_run_that_is_over_grows_no_older() -> None:
    done = [
        PhaseStatus(name=name, state="done", last_exit=PhaseExit(attempt=1, outcome="done", at=at))
        for name, at in (("prepare", 10.0), ("merge", 30.0))
    ]
    assert _over_at(done, 99.0) == 30.0
    assert _over_at([*done, PhaseStatus(name="train", state="running")], 99.0) == 99.0
    assert _over_at([], 99.0) == 99.0
