"""kill -9 of worker, supervisor and engine, in any order, at any moment: nothing is lost and
nothing is doubled."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

from harness import Run

from eagle_tui import proc

KILLS = 32


def test_thirty_kills_at_random(new_run: Callable[..., Run]) -> None:
    run = new_run(rows=36)
    run.up()
    rng = random.Random(20261130)
    killed: Counter[str] = Counter()
    deadline = time.monotonic() + 600
    while sum(killed.values()) < KILLS:
        assert time.monotonic() < deadline, f"only {dict(killed)} kills\n{run.story()}"
        kind = rng.choices(
            ["generate", "supervisor", "engine", "prepare", "merge"], [10, 10, 4, 3, 3]
        )[0]
        found = run.processes(kind)
        if not found:
            # A supervisor that is gone comes back with the next look.
            run.status()
            time.sleep(0.1)
            continue
        if proc.send(found[0], signal.SIGKILL):
            killed[kind] += 1
        time.sleep(rng.choice([0.0, 0.05, 0.3, 1.0, 2.5]))
        if rng.random() < 0.7:
            run.status()
    assert killed["generate"] >= 3 and killed["supervisor"] >= 3 and killed["engine"] >= 3
    run.wait_done()
    run.assert_each_once()
    manifest = json.loads(run.dir.manifest("merge").read_text())
    generated = sum(len(rows) for rows in run.rows().values())
    assert generated == 6 * 36
    assert manifest["early"] == ""
    assert len(run.processes("supervisor")) == 1
    run.down()
    for kind in ("supervisor", "generate", "engine", "merge", "prepare"):
        assert run.processes(kind) == [], f"{kind} was left behind"


def test_a_worker_that_always_dies_fails_with_its_last_lines(new_run: Callable[..., Run]) -> None:
    run = new_run("supervisor.restarts=2", "dataset[b1-arith].source=data/none.jsonl", rows=5)
    run.up()
    status = run.wait("prepare failed", lambda s: s.phases[0].state == "failed")
    assert "none.jsonl" in status.phases[0].reason
    assert any(a.rule == "phase-prepare" and a.severity == "error" for a in status.alerts)
    assert status.phases[1].state == "blocked"
    # Such a run still has its supervisor, and takes no second one.
    words = [sys.executable, "-m", "eagle_tui.supervisor", str(run.root)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "another supervisor has this run" in done.stderr and "pid " in done.stderr
    # Mended, and told to go on.
    (run.root / "data" / "none.jsonl").write_bytes((run.root / "data" / "arith.jsonl").read_bytes())
    run.verb("rerun", "prepare")
    run.wait("prepare done", lambda s: s.phases[0].state == "done")


def test_a_server_that_run_toml_does_not_name_any_more_is_not_orphaned(
    new_run: Callable[..., Run],
) -> None:
    run = new_run(rows=36)
    run.up()
    run.wait("server ready", lambda s: s.servers[0].state == "ready")
    (supervisor,) = run.processes("supervisor")
    proc.send(supervisor, signal.SIGKILL)
    text = run.dir.config.read_text()
    run.dir.config.write_text(text.replace('name = "engine"', 'name = "renamed"'))
    assert run.dir.config.read_text() != text
    done = run.eagle("up", str(run.root), "--detach", check=False)
    assert done.returncode == 2 and "[server] of run.toml changed" in done.stderr
    assert f"eagle-tui down {run.root}" in done.stderr and run.processes("engine")
    run.down()
    assert run.processes("engine") == []
    run.up()
    run.wait(
        "server ready", lambda s: [(v.name, v.state) for v in s.servers] == [("renamed", "ready")]
    )
