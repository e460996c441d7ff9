"""Taking commands back: field by field, only what still holds, and the undo itself as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.config import PHASES, parse_config
from eagle_tui.protocol import PhaseState, PhaseStatus
from eagle_tui.rundir.desired import DatasetControl, Desired
from eagle_tui.supervisor import undo
from eagle_tui.supervisor.commands import Refusal, View, apply, preview
from eagle_tui.supervisor.dataset_figures import DatasetFigures
from eagle_tui.supervisor.tuning import arguments
from eagle_tui.supervisor.tuning.order import ServerView

CONFIG = parse_config(
    """
[run]
phases = ["prepare", "generate", "merge"]
[target]
model = "m"
[[server]]
engine = "embedded"
[[dataset]]
name = "short"
source = "s.jsonl"
cap_tokens = 5000
[[dataset]]
name = "long"
source = "l.jsonl"
"""
)
CONTROLS = st.builds(
    DatasetControl,
    cap_tokens=st.none() | st.integers(0, 9),
    concurrency=st.none() | st.integers(1, 9),
    skip=st.booleans(),
)
DESIRED = st.builds(
    Desired,
    pause=st.sampled_from(["no", "hold", "drain"]),
    datasets=st.dictionaries(st.sampled_from("ab"), CONTROLS),
    order=st.lists(st.sampled_from("ab"), unique=True).map(tuple),
    cap_tokens_total=st.none() | st.integers(0, 9),
)


def same(a: Desired, b: Desired) -> bool:
    """Whether they mean the same: a dataset without changes may be named or not."""

    def plain(desired: Desired) -> Desired:
        kept = {n: c for n, c in desired.datasets.items() if c != DatasetControl()}
        return desired.model_copy(update={"datasets": kept})

    return plain(a) == plain(b)


@given(before=DESIRED, after=DESIRED)
def test_put_back_is_what_was(before: Desired, after: Desired) -> None:
    kept = undo.from_json(undo.to_json(undo.edits(before, after)))
    assert same(undo.put_back(after, kept), before)
    assert undo.words(kept, CONFIG) or before == after or same(before, after)
    # The undo can be undone.
    back = undo.put_back(after, kept)
    assert same(undo.put_back(back, undo.edits(after, back)), after)


@given(before=DESIRED, after=DESIRED, later=DESIRED)
def test_what_was_ordered_since_is_never_lost(
    before: Desired, after: Desired, later: Desired
) -> None:
    changed = undo.edits(before, after)
    since = {edit.path for edit in undo.edits(after, later)}
    if since & {edit.path for edit in changed}:
        with pytest.raises(undo.Overtaken, match="changed again since"):
            undo.put_back(later, changed)
    else:
        back = undo.put_back(later, changed)
        assert {edit.path for edit in undo.edits(later, back)} == {e.path for e in changed}


def view(desired: Desired, earlier: undo.Earlier | None, state: PhaseState = "running") -> View:
    states: dict[str, PhaseState] = dict.fromkeys(PHASES, "pending")
    states |= {"prepare": "done", "generate": state}

    def look(id: str) -> undo.Earlier:
        if earlier is None or not earlier.id.startswith(id):
            raise LookupError(f"no command has the id {id!r}")
        return earlier

    return View(
        config=CONFIG,
        desired=desired,
        phases={p: PhaseStatus(name=p, state=s) for p, s in states.items()},
        datasets={"short": DatasetFigures(prompts=100)},
        earlier=look,
    )


@pytest.mark.parametrize(
    ("verb", "args", "words"),
    [
        ("pause", {"mode": "drain"}, "generation goes on"),
        ("cap", {"dataset": "short", "tokens": 9000}, "short: cap in tokens as in run.toml"),
        (
            "cap",
            {"dataset": "total", "samples": 9},
            "all datasets: cap in responses as in run.toml",
        ),
        ("concurrency", {"dataset": "long", "value": 7}, "long: as in run.toml requests in flight"),
        ("order", {"datasets": ["long"]}, "the order as in run.toml"),
        ("skip", {"dataset": "long"}, "long: taken in again"),
    ],
)
def test_undo_of_each_verb(verb: str, args: dict[str, Any], words: str) -> None:
    before = Desired(seq=4)
    done = apply(view(before, None), verb, args)
    earlier = undo.Earlier("abc", verb, undo.edits(before, done.desired))
    change = apply(view(done.desired, earlier), "undo", {"command": "ab"})
    assert change.sentence == f"{verb}: {words}"
    assert same(change.desired, before.model_copy(update={"seq": 6}))


def test_undo_is_refused_with_a_sentence() -> None:
    before = Desired(pause="hold")
    resumed = apply(view(before, None), "resume", {}).desired
    earlier = undo.Earlier("abc", "resume", undo.edits(before, resumed))
    with pytest.raises(Refusal, match="nothing to pause"):
        apply(view(resumed, earlier, "done"), "undo", {})
    assert not preview(view(resumed, None), "undo", {"command": "x"}).allowed
    drained = resumed.model_copy(update={"pause": "drain"})
    told = preview(view(drained, earlier), "undo", {})
    assert told.sentence == "pause was changed again since: undo that first"


def test_undoing_a_cap_takes_generation_up_again() -> None:
    before = Desired()
    capped = apply(view(before, None), "cap", {"dataset": "long", "tokens": 1}).desired
    earlier = undo.Earlier("abc", "cap", undo.edits(before, capped))
    change = apply(view(capped, earlier, "done"), "undo", {})
    assert change.again == ("generate", "merge")


ARGV = ("server", "--max-running-requests", "8", "--enable-metrics")
SETTINGS = st.dictionaries(
    st.sampled_from(["max-running-requests", "schedule-policy", "max-total-tokens"]),
    st.sampled_from(["16", "32"]) | st.none(),
)


def tuned(view_: View, **fields: Any) -> View:
    server = ServerView("one", ARGV, view_.desired.tuned.get("one", {}), **fields)
    return replace(view_, servers=lambda: (server,))


@given(before=SETTINGS, after=SETTINGS)
def test_a_retune_is_taken_back_by_another_one(
    before: dict[str, str | None], after: dict[str, str | None]
) -> None:
    desired = Desired(tuned={"one": after} if after else {})
    (edit,) = undo.from_json(undo.to_json([undo.retuned("one", before, after)]))
    earlier = undo.Earlier("abc", "retune", (edit,))
    looked_at = tuned(view(desired, earlier))
    try:
        change = apply(looked_at, "undo", {})
    except Refusal as refusal:
        assert "nothing would change" in str(refusal) or "say what to change" in str(refusal)
        same_line = undo_line(before) == undo_line(after)
        assert same_line, refusal
        return
    (order,) = change.retunes
    assert undo_line(order.after) == undo_line(before)
    assert change.desired.tuned == desired.tuned, "in force only when the server is up with them"
    assert "retune: one: " in change.sentence


def undo_line(settings: Mapping[str, str | None]) -> list[str]:
    return sorted(arguments.apply(ARGV, settings))


def test_a_retune_that_was_changed_since_is_not_taken_back() -> None:
    edit = undo.retuned("one", {}, {"max-running-requests": "16"})
    earlier = undo.Earlier("abc", "retune", (edit,))
    desired = Desired(tuned={"one": {"max-running-requests": "64"}})
    with pytest.raises(Refusal, match="what is retuned of one was changed again since"):
        apply(tuned(view(desired, earlier)), "undo", {})
    desired = Desired(tuned={"one": {"max-running-requests": "16"}})
    with pytest.raises(Refusal, match="it is being retuned already"):
        apply(tuned(view(desired, earlier), refusal="it is being retuned already"), "undo", {})
    assert undo.tuned_words([edit]) == "one is retuned: max-running-requests as in run.toml"


def test_flag() -> None:
    change = apply(view(Desired(seq=3), None), "flag", {"dataset": "long", "id": "i" * 32})
    assert change.flag == {"dataset": "long", "id": "i" * 32, "note": "", "remove": False}
    assert change.desired.seq == 3, "workers have nothing to do about it"
    for args in ({"dataset": "lung", "id": "i"}, {"dataset": "long"}, {"dataset": "long", "id": 3}):
        with pytest.raises(Refusal):
            apply(view(Desired(), None), "flag", args)
