"""What a run is shown again from: snapshots, estimates, marks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import snapshots
from eagle_tui.protocol import Alert, PhaseStatus, Status
from eagle_tui.snapshots import Snapshots
from eagle_tui.supervisor.estimates import MILESTONES, Estimates, milestone
from eagle_tui.supervisor.moments import LONGEST, mark_kind, order_text
from eagle_tui.supervisor.store import Store

SCENE = Path(__file__).parents[1] / "ui" / "data" / "kimi.json"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state.sqlite")
    yield store
    store.close()


@pytest.fixture(scope="module")
def kimi() -> Status:
    return Status.from_json(json.loads(SCENE.read_text()))


def times(store: Store) -> list[float]:
    return [row[0] for row in store._db.execute("SELECT t FROM snapshots ORDER BY t")]


def at(status: Status, t: float, **changes: object) -> Status:
    return status.model_copy(update={"at": t, **changes})


def test_a_snapshot_comes_back_as_it_was(kimi: Status) -> None:
    body = snapshots.pack(kimi)
    assert snapshots.unpack(body) == kimi
    assert len(body) < 3000, "eight GPUs and ten datasets"
    with pytest.raises(ValueError, match="cannot be read"):
        snapshots.unpack(b"nonsense")


def test_every_ten_seconds_while_something_changes(store: Store, kimi: Status) -> None:
    keeper = Snapshots(store)
    for second in range(60):
        keeper.offer(at(kimi, 1000.0 + second, seq=second))
    assert times(store) == [1000.0, 1010.0, 1020.0, 1030.0, 1040.0, 1050.0]


def test_seldom_while_nothing_does_however_the_machine_rustles(store: Store, kimi: Status) -> None:
    keeper = Snapshots(store)
    for second in range(1300):
        host = kimi.host.model_copy(update={"cpu": (second % 100) / 100})
        gpus = tuple(g.model_copy(update={"power_w": float(second)}) for g in kimi.gpus)
        keeper.offer(at(kimi, 1000.0 + second, host=host, gpus=gpus))
    assert times(store) == [1000.0, 1600.0, 2200.0]


def test_at_once_when_a_state_changes(store: Store, kimi: Status) -> None:
    keeper = Snapshots(store)
    keeper.offer(at(kimi, 1000.0))
    failed = kimi.phases[0].model_copy(update={"state": "failed"})
    keeper.offer(at(kimi, 1001.0, phases=(failed, *kimi.phases[1:])))
    keeper.offer(at(kimi, 1002.0, phases=(failed, *kimi.phases[1:])))
    alarm = Alert(rule="x", severity="error", sentence="s", remedy="", since=1003.0)
    keeper.offer(at(kimi, 1003.0, phases=(failed, *kimi.phases[1:]), alerts=(alarm,)))
    assert times(store) == [1000.0, 1001.0, 1003.0]


def test_weeks_stay_small(store: Store, kimi: Status) -> None:
    keeper = Snapshots(store)
    small = kimi.model_copy(update={"datasets": (), "gpus": (), "commands": ()})
    days, every = 4, 30
    start = 1_000_000.0 // 600 * 600
    with store.transaction():
        for second in range(0, days * 86400, every):
            keeper.offer(at(small, start + second, seq=second))
    end = start + days * 86400.0
    kept = times(store)
    fresh = [t for t in kept if t >= end - 7200]
    middle = [t for t in kept if end - 3 * 86400 <= t < end - 7200 - 660]
    old = [t for t in kept if t < end - 3 * 86400 - 1200]
    assert len(fresh) == 7200 / every
    assert {b - a for a, b in itertools.pairwise(middle)} == {60.0}
    assert {b - a for a, b in itertools.pairwise(old)} == {600.0}
    assert len(kept) < 720 + 3 * 1440 + days * 144 + 100


def test_a_supervisor_that_was_killed_goes_on(tmp_path: Path, kimi: Status) -> None:
    first = Store(tmp_path / "s")
    Snapshots(first).offer(at(kimi, 1000.0))
    first.close()
    second = Store(tmp_path / "s")
    keeper = Snapshots(second)
    keeper.offer(at(kimi, 1004.0))
    keeper.offer(at(kimi, 1005.0))
    assert times(second) == [1000.0, 1004.0], "what changed meanwhile is not known, so it is kept"
    found = second.snapshot(1003.9)
    assert found is not None and found[0] == 1000.0
    assert second.snapshot(999.0) is None and second.snapshot_span() == (1000.0, 1004.0)


def running(done: int | None, eta: float = 100.0, name: str = "generate") -> PhaseStatus:
    eta_s = (eta / 2, eta, eta * 2)
    return PhaseStatus(name=name, state="running", attempt=1, done=done, total=1000, eta_s=eta_s)


def test_estimates_are_kept_at_milestones(store: Store, kimi: Status) -> None:
    keeper = Estimates(store)
    for t, done in enumerate([None, 0, 20, 51, 52, 99, 100, 260, 600, 905, 1000]):
        keeper.look(at(kimi, float(t), phases=(running(done),)))
    assert [e.done for e in store.estimates()] == [None, 51, 100, 260, 600, 905]
    again = Estimates(store)
    again.look(at(kimi, 20.0, phases=(running(960),)))
    assert len(store.estimates()) == 6, "a new supervisor knows what was kept"
    again.look(at(kimi, 21.0, phases=(running(3),)))
    assert store.estimates()[-1].done == 3, "begun anew"
    paused = running(500).model_copy(update={"state": "paused"})
    again.look(at(kimi, 22.0, phases=(paused,)))
    assert len(store.estimates()) == 7


def test_what_was_foretold_of_a_phase_before_it_began_is_kept_once(
    store: Store, kimi: Status
) -> None:
    pending = PhaseStatus(name="train", state="pending", eta_s=(1.0, 2.0, 3.0))
    for t in (1.0, 2.0):
        Estimates(store).look(at(kimi, t, phases=(pending,)))
    Estimates(store).look(at(kimi, 3.0, phases=(running(1, name="train"),)))
    assert [(e.at, e.attempt) for e in store.estimates()] == [(1.0, 0), (3.0, 1)]


@given(st.floats(0, 1))
def test_a_milestone_is_reached_never_ahead(share: float) -> None:
    found = milestone(share)
    assert found <= share and found in MILESTONES


@pytest.mark.parametrize(
    ("verb", "args", "text"),
    [
        ("pause", {"mode": "hold"}, "pause hold"),
        ("cap", {"dataset": "b1", "tokens": 10_000_000}, "cap b1 tokens 10M"),
        ("cap", {"dataset": "b1", "samples": 1234, "none": False}, "cap b1 samples 1234"),
        ("cap", {"dataset": "total", "tokens": 2_500_000}, "cap total tokens 2.5M"),
        ("concurrency", {"dataset": "b1", "value": 64}, "concurrency b1 64"),
        ("order", {"datasets": ["x", "y"]}, "order x y"),
        ("skip", {"dataset": "b1", "undo": True}, "skip b1 undo"),
    ],
)
def test_an_order_in_a_few_words(verb: str, args: dict[str, object], text: str) -> None:
    assert order_text(verb, args) == text


def test_whatever_pauses_is_marked_as_a_pause() -> None:
    assert mark_kind("undo", "hold", "no") == "resume"
    assert mark_kind("undo", "no", "drain") == "pause"
    assert mark_kind("undo", "no", "no") == "undo" and mark_kind("cap", "hold", "hold") == "cap"


def test_a_long_order_is_cut() -> None:
    assert len(order_text("order", {"datasets": ["name"] * 100})) == LONGEST
