"""A cap over all datasets, given while they are generated: kept exactly, told, taken away."""

from __future__ import annotations

import json
from collections.abc import Callable

from harness import Run

from eagle_tui.config.load import override


def test_a_cap_over_all_is_kept_told_and_taken_away(new_run: Callable[..., Run]) -> None:
    run = new_run("generate.concurrency=4", rows=12)
    run.dir.config.write_text(override(run.dir.config.read_text(), ["merge.val_fraction=0.0"]))
    run.up()
    run.wait("a response", lambda s: (s.phases[1].done or 0) >= 1)
    # On a fast machine it would be past the cap before the cap is there.
    run.verb("pause")
    paused = run.wait("paused", lambda s: s.phases[1].state == "paused", 30)
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
    run.wait("more", lambda s: (s.phases[1].done or 0) > cap, 60)
