"""run.toml is saved half-way while the run goes on: the run goes by what it accepted."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from harness import Run

from eagle_tui import proc
from eagle_tui.config.load import override


def test_a_run_goes_on_by_what_it_accepted(new_run: Callable[..., Run]) -> None:
    names = ("b2-count", "b3-strings", "b4-tools", "b5-chat", "b6-sort")
    few = [f"dataset[{name}].samples=1" for name in names]
    run = new_run("dataset[b1-arith].samples=30", *few)
    run.up()
    run.wait("some responses", lambda s: (s.phases[1].done or 0) >= 3)
    text = run.dir.config.read_text()
    # Valid, but the later datasets are missing: whoever went by it would be done too early.
    run.dir.config.write_text(text[: text.index("b5-chat")].rpartition("[[")[0])
    for kind in ("generate", "supervisor"):
        for process in run.processes(kind):
            proc.send(process, signal.SIGKILL)
    run.wait_done()
    run.assert_each_once()
    assert sum(len(rows) for rows in run.rows().values()) == 35
    events = run.eagle("events", str(run.root)).stdout
    assert "generate: run.toml " in events and "supervisor: run.toml " in events

    run.dir.config.write_text(text[: len(text) // 3] + "\n[")
    refused = run.verb("rerun", "merge", check=False)
    assert refused.returncode == 3 and "run.toml" in refused.stdout + refused.stderr
    run.dir.config.write_text(override(text, ["merge.seed=7"]))
    before = json.loads(run.dir.manifest("merge").read_text())
    run.verb("rerun", "merge")
    run.wait("merge again", lambda s: (s.phases[2].state, s.phases[2].attempt) == ("done", 2), 60)
    after = json.loads(run.dir.manifest("merge").read_text())
    assert after["inputs"]["[merge]"] != before["inputs"]["[merge]"]
