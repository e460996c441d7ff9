"""What the status says of generation: datasets, all of them together, caps, estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.config import parse_config
from eagle_tui.protocol import PhaseState
from eagle_tui.rundir.desired import DatasetControl, Desired
from eagle_tui.rundir.jsonl import Appender
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.figures import Figures
from eagle_tui.supervisor.status import GenerateView, generate_view

CONFIG = parse_config(
    """
[target]
model = "m"
[[server]]
engine = "embedded"
[[dataset]]
name = "own"
source = "n.jsonl"
kind = "native"
[[dataset]]
name = "a"
source = "a.jsonl"
[[dataset]]
name = "b"
source = "b.jsonl"
[[dataset]]
name = "c"
source = "c.jsonl"
"""
)


def figures(tmp_path: Path, *events: dict[str, Any]) -> Figures:
    """As told by a worker: 100 prompts in each dataset, 20 responses of 100 tokens in a."""
    run = RunDir.at(tmp_path)
    log = Appender(run.events("generate", 1))
    log.append({"e": "dataset", "at": 1.0, "name": "a", "prompts": 100,
                "states": {"complete": 20, "failed": 2}, "tokens": 2000, "lengths": {"100": 20},
                "reasoned": 10, "reasoning_tokens": 500})  # fmt: skip
    for name in ("b", "c"):
        log.append({"e": "dataset", "at": 1.0, "name": name, "prompts": 100})
    for event in events:
        log.append({"at": 1.0, **event})
    log.close()
    found = Figures(run, ManualClock())
    found.dataset("own").prompts = 7
    found.follow("generate", 1)
    return found


def look(found: Figures, phase: PhaseState = "running", **desired: Any) -> GenerateView:
    return generate_view(CONFIG, Desired(**desired), found, phase, 10.0, 2.0)


def states(view: GenerateView) -> dict[str, str]:
    return {row.name: row.state for row in view.datasets}


def middles(view: GenerateView) -> dict[str, float | None]:
    return {row.name: row.eta_s and row.eta_s[1] for row in view.datasets}


def test_all_together_are_told_as_one_dataset(tmp_path: Path) -> None:
    view = look(figures(tmp_path))
    total = view.together
    assert total is not None and total.name == "total" and total.kind == "prompts"
    assert (total.prompts, total.done, total.complete, total.failed) == (300, 22, 20, 2)
    assert (total.tokens, total.tokens_mean, total.tokens_p95) == (2000, 100.0, 100.0)
    assert (total.reasoning_share, total.reasoning_mean) == (0.5, 50.0)
    assert (total.cap_tokens, total.cap_samples, total.state) == (None, None, "pending")
    assert (view.done, view.total) == (22, 300)
    assert total.eta_s == view.eta_s is not None
    assert middles(view) == {"own": None, "a": 780.0, "b": 1780.0, "c": 2780.0}


def test_a_model_that_does_not_reason_has_no_share_of_reasoning(tmp_path: Path) -> None:
    found = figures(tmp_path)
    target = CONFIG.target.model_copy(update={"reasoning": "none"})
    config = CONFIG.model_copy(update={"target": target})
    view = generate_view(config, Desired(), found, "running", 10.0, 2.0)
    assert view.together is not None and view.together.reasoning_share is None
    assert all(row.reasoning_share is None for row in view.datasets)
    assert next(r for r in look(found).datasets if r.name == "a").reasoning_share == 0.5


def test_what_the_total_cap_leaves_goes_to_the_datasets_in_their_order(tmp_path: Path) -> None:
    found = figures(tmp_path)
    view = look(found, cap_tokens_total=15_000)
    assert middles(view) == {"own": None, "a": 780.0, "b": 1300.0, "c": 1300.0}
    assert view.total == 22 + 78 + 52
    assert view.together is not None
    assert view.together.cap_tokens == 15_000 and view.together.eta_s == view.eta_s
    # The cap says how many tokens there are, so that only the rate is uncertain.
    low, middle, high = view.eta_s or (0, 0, 0)
    free = look(found).eta_s or (0, 0, 0)
    assert high / low < free[2] / free[0] and middle == 1300.0
    by_samples = look(found, cap_samples_total=50)
    assert middles(by_samples) == {"own": None, "a": 300.0, "b": 300.0, "c": 300.0}
    assert by_samples.total == 22 + 30
    # In another order somebody else gets it.
    turned = look(found, cap_samples_total=50, order=("c",))
    assert middles(turned)["c"] == 300.0
    skipped = look(found, cap_tokens_total=15_000, datasets={"a": DatasetControl(skip=True)})
    assert middles(skipped) == {"own": None, "a": None, "b": 1000.0, "c": 1300.0}


@pytest.mark.parametrize("cap", [{"cap_tokens_total": 2000}, {"cap_samples_total": 20}])
def test_reached_every_dataset_is_capped_but_those_done(tmp_path: Path, cap: Any) -> None:
    """The cap by samples counts what is stored; the two that failed are not."""
    found = figures(tmp_path)
    view = look(found, **cap)
    assert states(view) == {"own": "done", "a": "capped", "b": "capped", "c": "capped"}
    assert view.together is not None and view.together.state == "capped"
    assert (view.done, view.total, view.eta_s) == (22, 22, (0, 0, 0))
    assert middles(view)["b"] is None
    in_flight = figures(tmp_path / "2", {"e": "flow", "mode": "running", "in_flight": {"a": 3}})
    flying = look(in_flight, **cap)
    assert states(flying)["a"] == "running" and flying.together is not None
    assert (flying.together.state, flying.together.in_flight) == ("running", 3)
    raised = look(found, cap_tokens_total=2001, cap_samples_total=21)
    assert states(raised)["a"] == "pending"


def test_all_together_are_done_or_capped_when_each_is(tmp_path: Path) -> None:
    found = figures(tmp_path)
    for name in ("a", "b", "c"):
        found.dataset(name).states["complete"] = 100
    capped = figures(tmp_path / "2")
    own_caps = {name: DatasetControl(cap_samples=1) for name in "abc"}
    for name in ("b", "c"):
        capped.dataset(name).add({"state": "complete", "ct": 10, "at": 0.0})
    views = (
        look(found, "done"),
        look(capped, "done", datasets=own_caps),
        look(figures(tmp_path / "3"), "paused"),
    )
    told = [view.together.state for view in views if view.together is not None]
    assert told == ["done", "capped", "paused"]


def test_only_native_datasets_have_no_total(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"dataset": CONFIG.dataset[:1]})
    view = generate_view(config, Desired(), figures(tmp_path), "pending", None, 2.0)
    assert view.together is None and view.eta_s is None
