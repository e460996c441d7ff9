"""A cap over all datasets, given while they are generated: kept exactly, told, taken away. Then
run.toml is saved half-way while the run goes on: the run goes by what it accepted."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from harness import Run

from eagle_tui import proc
from eagle_tui.config.load import override


def test_a_cap_over_all_and_a_half_saved_run_toml(new_run: Callable[..., Run]) -> None:
    run = new_run("generate.concurrency=4", "merge.val_fraction=0.0", rows=12)
    run.up()
    run.wait("a response", lambda s: (s.phases[1].done or 0) >= 1)
    # On a fast machine it would be past the cap before the cap is there.
    run.verb("pause")
    paused = run.wait("paused", lambda s: s.phases[1].state == "paused")
    cap = (paused.phases[1].done or 0) + 8
    assert cap < 72 - 8
    said = run.verb("cap", "total", "--samples", str(cap)).stdout
    assert f"all datasets together: cap at {cap} responses" in said
    run.verb("resume")
    status = run.wait_done()
    total = status.total
    assert total is not None
    assert (total.state, total.cap_samples, total.prompts) == ("capped", cap, 72)
    assert total.done == cap == sum(len(rows) for rows in run.rows().values())
    states = {d.name: d.state for d in status.datasets if d.kind == "prompts"}
    assert set(states.values()) == {"done", "capped"} and states["b6-sort"] == "capped"
    assert json.loads(run.dir.manifest("generate").read_text())["early"] == ""
    shown = run.eagle("status", str(run.root)).stdout
    row = next(line.split() for line in shown.splitlines() if line.startswith("total"))
    assert row[1:3] == ["capped", f"{cap}/72"] and str(cap) in row

    # Without it generation is taken up again.
    assert f"about {72 - cap} more, 0 prompts left out" in run.verb("cap", "total", "--none").stdout
    run.wait("more", lambda s: (s.phases[1].done or 0) > cap)

    # Valid, but the later datasets are missing: whoever went by it would be done too early.
    text = run.dir.config.read_text()
    run.dir.config.write_text(text[: text.index("b5-chat")].rpartition("[[")[0])
    for kind in ("generate", "supervisor"):
        for process in run.processes(kind):
            proc.send(process, signal.SIGKILL)
    status = run.wait_done()
    run.assert_each_once()
    assert sum(len(rows) for rows in run.rows().values()) == 72
    events = run.eagle("events", str(run.root)).stdout
    assert "generate: run.toml " in events and "supervisor: run.toml " in events

    # Nothing is done again by what cannot be read; by what can be, it is.
    run.dir.config.write_text(text[: len(text) // 3] + "\n[")
    refused = run.verb("rerun", "merge", check=False)
    assert refused.returncode == 3 and "run.toml" in refused.stdout + refused.stderr
    run.dir.config.write_text(override(text, ["merge.seed=7"]))
    before = json.loads(run.dir.manifest("merge").read_text())
    again = status.phases[2].attempt + 1
    run.verb("rerun", "merge")
    run.wait("merge again", lambda s: (s.phases[2].state, s.phases[2].attempt) == ("done", again))
    after = json.loads(run.dir.manifest("merge").read_text())
    assert after["inputs"]["[merge]"] != before["inputs"]["[merge]"]
