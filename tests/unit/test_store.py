"""What the supervisor keeps: commands once, attempts, events, history that survives it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from eagle_tui.proc import Process
from eagle_tui.protocol import CommandStatus
from eagle_tui.rundir.desired import DatasetControl, Desired, Endpoint
from eagle_tui.supervisor.store import Store, StoreError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state.sqlite")


def order(name: str, at: float = 1.0) -> CommandStatus:
    return CommandStatus(id=name, verb="pause", args={"mode": "hold"}, state="requested", at=at)


def test_the_same_order_twice_is_one_command(store: Store) -> None:
    store.request(order("a"))
    store.settle("a", "refused", "no", 2.0)
    again = store.request(order("a", at=9.0))
    assert (again.state, again.reason, again.at) == ("refused", "no", 1.0)
    assert [c.status.id for c in store.commands_in("requested")] == []


def test_acceptance_and_desired_state_are_one_transaction(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    store = Store(path)
    store.request(order("a"))
    wanted = Desired(
        seq=3,
        pause="hold",
        datasets={"x": DatasetControl(cap_tokens=5)},
        endpoints=(Endpoint(name="e", url="http://e"),),
    )
    store.accept("a", wanted, 2.0)
    store.close()
    again = Store(path)
    (command,) = again.commands_in("accepted")
    assert (command.seq, again.desired()) == (3, wanted.model_copy(update={"endpoints": ()}))


def test_commands_stay_in_the_order_in_which_they_came(store: Store) -> None:
    for name, at in (("a", 2.0), ("b", 3.0), ("after the clock was set back", 1.0)):
        store.request(order(name, at))
    came = ["a", "b", "after the clock was set back"]
    assert [c.status.id for c in store.commands_in("requested")] == came
    assert [c.id for c in store.recent_commands(2)] == came[1:]


def test_attempts(store: Store) -> None:
    assert store.begin("phase", "merge", "t1", 1.0) == 1
    (open_one,) = store.open_attempts("phase")
    assert open_one.process is None
    store.launched("t1", Process(7, 99))
    store.ended("t1", 5.0, outcome="died", reason="killed by SIGKILL", signal=9)
    assert store.open_attempts("phase") == []
    assert store.begin("phase", "merge", "t2", 6.0) == 2
    assert store.begin("server", "merge", "t3", 6.0, "http://x") == 1
    first = store.attempts("phase", "merge")[0]
    assert (first.process, first.signal, first.code) == (Process(7, 99), 9, None)


def test_a_file_of_another_version_or_no_database_is_refused(tmp_path: Path) -> None:
    newer = tmp_path / "newer.sqlite"
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="another version"):
        Store(newer)
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="move it away"):
        Store(broken)


def test_events_newest_but_in_order(store: Store) -> None:
    for n in range(10):
        store.event(float(n), "info", "x", f"event {n}")
    assert [e.text for e in store.events(0, 3)] == ["event 7", "event 8", "event 9"]
    last = store.events(0, 1)[0].id
    assert store.events(last, 10) == []


def test_marks_come_in_order_of_time(store: Store) -> None:
    store.mark(3.0, "retune", "c")
    store.mark(1.0, "pause", "a")
    store.mark(3.0, "crash", "d")
    assert [m.text for m in store.marks(0.0)] == ["a", "c", "d"]
    assert [(m.kind, m.text) for m in store.marks(2.0, limit=1)] == [("crash", "d")]
