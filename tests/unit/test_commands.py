"""The operator's verbs: what each changes, what it is refused for, what it says it costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from eagle_tui.actions import ACTIONS
from eagle_tui.config import PHASES, parse_config
from eagle_tui.protocol import PhaseState, PhaseStatus
from eagle_tui.rundir.desired import DatasetControl, Desired, Retry, limits, ordered
from eagle_tui.supervisor.commands import VERBS, Refusal, View, apply, preview
from eagle_tui.supervisor.dataset_figures import DatasetFigures
from eagle_tui.supervisor.tuning.order import ServerView
from eagle_tui.supervisor.undo import Earlier, Edit

CONFIG = parse_config(
    """
[run]
phases = ["prepare", "generate", "merge"]
[target]
model = "m"
[[server]]
engine = "embedded"
[[dataset]]
name = "native"
source = "n.jsonl"
kind = "native"
[[dataset]]
name = "short"
source = "s.jsonl"
cap_tokens = 5000
[[dataset]]
name = "long"
source = "l.jsonl"
length = "long"
"""
)


def view(state: PhaseState = "running", **changes: Any) -> View:
    figures = DatasetFigures(
        prompts=100, states=Counter(complete=10), tokens=1000, lengths=Counter({100: 10})
    )
    figures.in_flight = 7
    states: dict[str, PhaseState] = dict.fromkeys(PHASES, "pending")
    states |= {"prepare": "done", "generate": state}
    base: dict[str, Any] = {
        "config": CONFIG,
        "desired": Desired(seq=4),
        "phases": {p: PhaseStatus(name=p, state=s) for p, s in states.items()},
        "datasets": {"short": figures},
        "tok_s": 10.0,
    }
    return View(**{**base, **changes})


def test_every_verb_of_the_registry_is_there() -> None:
    assert {a.verb for a in ACTIONS if a.verb} == set(VERBS) - {"up"}


@pytest.mark.parametrize("mode", ["hold", "drain", "abort"])
def test_pause_and_resume(mode: str) -> None:
    change = apply(view(), "pause", {"mode": mode})
    assert (change.desired.pause, change.desired.seq) == (mode, 5)
    assert "7" in change.sentence
    assert change.drops_work is (mode == "abort")
    back = apply(view(desired=change.desired), "resume", {})
    assert back.desired.pause == "no"


def test_resume_works_when_the_worker_paused_by_itself() -> None:
    assert apply(view(paused_by_itself=True), "resume", {}).desired.seq == 5


def test_cap_says_what_it_saves() -> None:
    change = apply(view(), "cap", {"dataset": "short", "tokens": 2000})
    lim = limits(CONFIG, change.desired, CONFIG.dataset_named("short"))
    assert lim.cap_tokens == 2000
    assert "1,000 tokens in 10 responses now" in change.sentence
    # 3,000 tokens less than the cap of run.toml lets it have, at 10 a second.
    assert "about 10 more, 80 prompts left out, saves about 5 min" in change.sentence
    raised = apply(view(), "cap", {"dataset": "short", "tokens": 6000})
    assert "about 50 more, 40 prompts left out, costs about 2 min" in raised.sentence
    gone = apply(view(), "cap", {"dataset": "short", "none": True})
    assert "no cap; 90 prompts left; about 90 more, 0 prompts left out, costs" in gone.sentence


def test_a_cap_that_ends_generation_says_so_and_is_confirmed() -> None:
    change = apply(view(), "cap", {"dataset": "total", "samples": 10})
    assert change.sentence.endswith("nothing is left to generate, so the next phase begins")
    assert change.drops_work
    for args in ({"dataset": "total", "samples": 11}, {"dataset": "short", "none": True}):
        assert not apply(view(), "cap", args).drops_work
    assert not apply(view("done"), "cap", {"dataset": "short", "tokens": 10}).drops_work


def test_what_is_left_out_last_says_that_generation_ends() -> None:
    short = view().datasets["short"]
    without = Desired(datasets={"long": DatasetControl(skip=True)})
    change = apply(view(desired=without), "skip", {"dataset": "short"})
    assert change.sentence == (
        "short: 90 prompts are left out; the 10 responses stay; nothing is left to generate, so "
        "the next phase begins"
    )
    assert change.drops_work
    more = view(datasets={"short": short, "long": DatasetFigures(prompts=5)})
    assert not apply(more, "skip", {"dataset": "short"}).drops_work
    taken_in = Edit(("datasets", "short", "skip"), True, False)
    back = view(desired=without, earlier=lambda _: Earlier("1", "skip short undo", (taken_in,)))
    assert apply(back, "undo", {}).sentence.endswith("so the next phase begins")


def test_an_order_that_leaves_the_phase_open_says_which_it_took() -> None:
    assert apply(view(), "advance", {}).args == {"phase": "generate"}
    assert apply(view("failed"), "rerun", {}).args == {"phase": "generate"}


def test_a_cap_on_a_dataset_not_begun_borrows_the_mean_of_the_others() -> None:
    with_long = {**view().datasets, "long": DatasetFigures(prompts=50)}
    change = apply(view(datasets=with_long), "cap", {"dataset": "long", "tokens": 2000})
    assert "about 20 more, 30 prompts left out" in change.sentence


def test_caps_over_all_datasets_together() -> None:
    change = apply(view(), "cap", {"dataset": "total", "tokens": 50_000, "samples": 40})
    assert change.desired.cap_tokens_total == 50_000
    assert change.desired.cap_samples_total == 40
    assert "50,000 tokens and 40 responses; 1,000 tokens in 10 responses now" in change.sentence
    assert "about 30 more, 60 prompts left out, saves about 2 min" in change.sentence
    free = apply(view(desired=change.desired), "cap", {"dataset": "total", "none": True}).desired
    assert (free.cap_tokens_total, free.cap_samples_total) == (0, 0)
    with pytest.raises(Refusal, match="say the cap"):
        apply(view(), "cap", {"dataset": "total"})


def test_the_cap_over_all_is_respected_by_what_a_dataset_would_cost() -> None:
    """What short gives up goes to long, which comes after it, so that nothing is saved."""
    both = {**view().datasets, "long": DatasetFigures(prompts=1000)}
    capped = Desired(cap_tokens_total=4000)
    change = apply(view(datasets=both, desired=capped), "cap", {"dataset": "short", "tokens": 2000})
    assert change.sentence.endswith("about 10 more, 80 prompts left out")
    raised = apply(view(datasets=both, desired=capped), "cap", {"dataset": "short", "tokens": 9000})
    assert "about 30 more" in raised.sentence  # what the total leaves, not what its own cap would
    end = apply(view(datasets=both, desired=capped), "advance", {})
    assert "23 prompts are left out" in end.sentence


def test_no_cap_overrules_run_toml() -> None:
    change = apply(view(), "cap", {"dataset": "short", "none": True})
    assert limits(CONFIG, change.desired, CONFIG.dataset_named("short")).cap_tokens is None


def test_a_cap_raised_after_the_end_reopens_generation() -> None:
    done = view("done", desired=Desired(finish=("generate",)))
    change = apply(done, "cap", {"dataset": "short", "tokens": 9000})
    assert change.again == ("generate", "merge")
    assert change.desired.finish == ()


def test_concurrency_skip_and_order() -> None:
    change = apply(view(), "concurrency", {"dataset": "long", "value": 8})
    assert limits(CONFIG, change.desired, CONFIG.dataset_named("long")).concurrency == 8
    assert "32 → 8" in change.sentence
    change = apply(view(), "skip", {"dataset": "short"})
    assert limits(CONFIG, change.desired, CONFIG.dataset_named("short")).skip
    change = apply(view(desired=change.desired), "skip", {"dataset": "short", "undo": True})
    assert not limits(CONFIG, change.desired, CONFIG.dataset_named("short")).skip
    change = apply(view(), "order", {"datasets": ["long"]})
    assert [d.name for d in ordered(CONFIG, change.desired)] == ["long", "native", "short"]


@pytest.mark.parametrize(
    ("phase", "unit", "said"),
    [
        ("extract", "rows", "extract ends after 1,200 of 5,000 rows; the rest is left out"),
        (
            "train",
            "steps",
            "train ends after 1,200 of 5,000 steps; what it learned is judged and exported",
        ),
    ],
)
def test_extraction_and_training_end_with_what_is_there(phase: str, unit: str, said: str) -> None:
    def at(done: int | None) -> View:
        status = PhaseStatus(name=phase, state="running", done=done, total=5000, unit=unit)
        phases = view("done").phases | {"merge": PhaseStatus(name="merge", state="done")}
        return view(phases=phases | {phase: status})

    change = apply(at(1200), "advance", {})
    assert (change.desired.finish, change.sentence, change.drops_work) == ((phase,), said, True)
    with pytest.raises(Refusal, match="nothing yet"):
        apply(at(0), "advance", {})
    online = CONFIG.model_copy(
        update={"extract": CONFIG.extract.model_copy(update={"mode": "online"})}
    )
    there = replace(at(1200), config=online)
    if phase == "extract":
        with pytest.raises(Refusal, match="end train instead"):
            apply(there, "advance", {})
    else:
        assert apply(there, "advance", {}).desired.finish == ("train",)


def test_advance_says_what_is_left_out() -> None:
    change = apply(view(), "advance", {})
    assert change.desired.finish == ("generate",)
    assert "10 responses; 33 prompts are left out; the 7 in flight finish first" in change.sentence
    assert change.drops_work


def test_retry_is_an_order_with_a_number() -> None:
    figures = DatasetFigures(prompts=9, states=Counter(failed=2, loop=1))
    with_dead = view("done", datasets={"short": figures})
    change = apply(with_dead, "retry", {"dataset": "short"})
    assert change.desired.retries == (Retry(seq=5, dataset="short", states=("failed",)),)
    assert (change.again, change.drops_work) == (("generate", "merge"), False)
    assert "2 prompts of short in state failed" in change.sentence
    assert apply(with_dead, "retry", {"state": "loop"}).drops_work
    with pytest.raises(Refusal, match="no prompt is in state truncated"):
        apply(with_dead, "retry", {"state": "truncated"})
    with pytest.raises(Refusal, match="expected one of"):
        apply(with_dead, "retry", {"state": "complete"})


def test_rerun_takes_the_cheap_phases_after_it_along() -> None:
    change = apply(view("failed"), "rerun", {})
    assert change.again == ("generate", "merge")
    assert change.forgive == ("generate", "merge")


@pytest.mark.parametrize(
    ("verb", "args", "said"),
    [
        ("resume", {}, "not paused"),
        ("pause", {"mode": "now"}, "expected hold, drain or abort"),
        ("cap", {"dataset": "shorty", "tokens": 1}, "did you mean 'short'"),
        ("cap", {"dataset": "native", "tokens": 1}, "native"),
        ("cap", {"dataset": "short"}, "say the cap"),
        ("cap", {"dataset": "short", "tokens": 0}, "at least 1"),
        ("cap", {"dataset": "short", "tokens": True}, "whole number"),
        ("cap", {"dataset": "short", "tokens": 1, "none": True}, "not both"),
        ("cap", {"dataset": "short", "token": 1}, "did you mean 'tokens'"),
        ("concurrency", {"dataset": "short"}, "say how many"),
        ("concurrency", {"dataset": "short", "value": 10**6}, "65,536"),
        ("order", {"datasets": ["nope"]}, "no dataset is named 'nope'"),
        ("order", {"datasets": ["long", "long"]}, "twice"),
        ("order", {}, "name the datasets"),
        ("advance", {"phase": "merge"}, "is pending"),
        ("advance", {"phase": "prepare"}, "is done"),
        ("advance", {"phase": "prepair"}, "did you mean 'prepare'"),
        ("rerun", {"phase": "generate"}, "is running"),
        ("rerun", {"phase": "train"}, "not named in run.phases"),
        ("paus", {}, "did you mean 'pause'"),
    ],
)
def test_refusals_say_why(verb: str, args: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal, match=said):
        apply(view(), verb, args)
    assert preview(view(), verb, args).allowed is False


def test_nothing_to_go_on_with() -> None:
    empty = view(datasets={})
    config = CONFIG.model_copy(update={"dataset": CONFIG.dataset[1:]})
    with pytest.raises(Refusal, match="no response yet"):
        apply(View(**{**empty.__dict__, "config": config}), "advance", {})
    with pytest.raises(Refusal, match="nothing to pause"):
        apply(view("done"), "pause", {})


def test_down_and_up() -> None:
    assert apply(view(), "down", {}).down
    assert apply(view("failed"), "up", {}).forgive == ("generate",)


def test_retune_is_per_server_and_names_what_is_wrong() -> None:
    one = ServerView("one", ("server", "--max-running-requests", "8"))
    seen = replace(view(), servers=lambda: (one, replace(one, name="two")))
    change = apply(seen, "retune", {"settings": {"max-running-requests": "16"}})
    assert [order.server for order in change.retunes] == ["one", "two"]
    assert change.desired.seq == seen.desired.seq + 1
    assert change.desired.tuned == {}, "in force only when a server is ready with it"
    with pytest.raises(Refusal, match="did you mean 'two'"):
        apply(seen, "retune", {"server": "tow", "settings": {"a": "1"}})
    with pytest.raises(Refusal, match="one: max-running-requests: x is no number"):
        apply(seen, "retune", {"server": "one", "settings": {"max-running-requests": "x"}})
