"""A run directory as a supervisor leaves it after an hour: snapshots, history, events, marks."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle_tui import series
from eagle_tui.history import Recorder
from eagle_tui.protocol import Estimate, PhaseStatus, Status
from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir
from eagle_tui.snapshots import Snapshots
from eagle_tui.supervisor.store import Store

SCENE = Path(__file__).parents[1] / "ui" / "data" / "kimi.json"
START = 1_800_000_000.0
HOUR = 3600
PAUSED = range(1800, 2100)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local times must not depend on where the tests run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at_second(base: Status, second: int) -> Status:
    """The run after `second` seconds: it generates, is paused for a while, goes on."""
    paused = second in PAUSED
    server = base.servers[0].model_copy(
        update={"tok_s": 0.0 if paused else 800.0 + second / 10, "running": 0 if paused else 50}
    )
    data = base.datasets[2].model_copy(update={"complete": second, "tokens": second * 1000})
    phases = tuple(
        PhaseStatus(
            name=p.name,
            state="paused" if paused and p.name == "generate" else p.state,
            attempt=p.attempt,
            done=second if p.name == "generate" else p.done,
            total=7200 if p.name == "generate" else p.total,
            unit=p.unit,
            elapsed_s=float(second) if p.name == "generate" else p.elapsed_s,
            eta_s=(3000.0, 3600.0, 4000.0) if p.name == "generate" else None,
        )
        for p in base.phases
    )
    return base.model_copy(
        update={
            "at": START + second,
            "run": base.run.model_copy(update={"started": START, "elapsed_s": float(second)}),
            "servers": (server,),
            "datasets": (*base.datasets[:2], data, *base.datasets[3:]),
            "phases": phases,
            "alerts": (),
        }
    )


def sample_row(dataset: str, number: int, at: float) -> str:
    return json.dumps(
        {
            "id": f"s{number}",
            "dataset": dataset,
            "state": "complete",
            "finish_reason": "stop",
            "usage": {"prompt_tokens": 4, "completion_tokens": 10 + number, "reasoning_tokens": 2},
            "endpoint": "server",
            "attempt": 1,
            "at": at,
            "reasoning": "thinks",
            "content": f"answer {number}",
            "conversation": [{"role": "user", "content": f"question {number}"}],
            "prompt_ids": [1, 2],
            "output_ids": [3, 4],
        }
    )


def run_toml(base: Status) -> str:
    lines = [f'[run]\nname = "{base.run.name}"', '[target]\nmodel = "builtin:tiny"']
    lines.append('[[server]]\nengine = "embedded"')
    lines += [
        f'[[dataset]]\nname = "{d.name}"\nsource = "data.jsonl"\nkind = "{d.kind}"'
        for d in base.datasets
    ]
    return "\n".join(lines) + "\n"


def record(root: Path) -> RunDir:
    """Write the directory. The state file is closed as by a supervisor that ended in order."""
    run = RunDir.at(root)
    run.root.mkdir(parents=True, exist_ok=True)
    base = Status.from_json(json.loads(SCENE.read_text()))
    run.config.write_text(run_toml(base))
    store = Store(run.state)
    recorder, keeper = Recorder(store), Snapshots(store)
    with store.transaction():
        for second in range(0, HOUR + 1, 5):
            status = at_second(base, second)
            keeper.offer(status)
    for second in range(0, HOUR + 1, 5):
        recorder.add(START + second, series.values(at_second(base, second)))
    recorder.flush(START + HOUR)
    store.event(START + 10, "info", "generate", "started (attempt 1)")
    store.event(START + 1800, "info", "operator", "pause: hold")
    store.event(START + 2100, "info", "operator", "resume")
    store.event(START + 3000, "warning", "generate", "something was odd")
    store.mark(START + 10, "phase", "generate starts")
    store.mark(START + 1800, "pause", "pause hold")
    store.mark(START + 2100, "resume", "resume")
    for at, done in ((60.0, 60), (720.0, 720)):
        store.add_estimate(
            Estimate(phase="generate", at=START + at, attempt=1, elapsed_s=at, done=done,
                     total=7200, eta_s=(3000.0, 6000.0, 9000.0))
        )  # fmt: skip
    store.close()
    name = base.datasets[2].name
    file = run.responses(name)
    file.parent.mkdir(parents=True)
    rows = [sample_row(name, n, START + n * 100) for n in range(30)]
    file.write_text("\n".join(rows) + "\n")
    last = at_second(base, HOUR)
    down = last.model_copy(
        update={"supervisor": last.supervisor.model_copy(update={"state": "stopped"})}
    )
    atomic.write_json(run.root / "status.json", down.to_json())
    return run


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Recorded once."""
    return record(tmp_path_factory.mktemp("recorded") / "run")


@pytest.fixture
def recorded(original: RunDir, tmp_path: Path) -> RunDir:
    """A finished run of one's own."""
    shutil.copytree(original.root, tmp_path / "run")
    return RunDir.at(tmp_path / "run")
