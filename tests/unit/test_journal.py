"""The journal in pages: nothing twice, nothing left out, from whatever end, filtered or not."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.protocol import CommandStatus
from eagle_tui.records import JournalEntry, JournalPage, JournalQuery
from eagle_tui.rundir.desired import Desired
from eagle_tui.supervisor.past import FOR_EVER
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.undo import Edit


def order(store: Store, id: str, at: float, verb: str = "pause") -> None:
    store.request(
        CommandStatus(id=id, verb=verb, args={}, state="requested", at=at, origin="ui:me")
    )


def name(entry: JournalEntry) -> str:
    if entry.event is not None:
        return entry.event.text
    assert entry.command is not None
    return entry.command.id


def older(
    store: Store, limit: int, until: float = FOR_EVER, **filters: object
) -> list[JournalPage]:
    pages = []
    query = JournalQuery.model_validate({"limit": limit, **filters})
    while True:
        page = store.journal(query, until)
        pages.append(page)
        if page.done:
            return pages
        query = query.model_copy(update={"before": page.before})


@given(kinds=st.lists(st.sampled_from("ec"), max_size=25), limit=st.integers(1, 7))
def test_pages_hold_all_in_the_order_of_time(kinds: list[str], limit: int) -> None:
    store = Store(Path(":memory:"))
    for n, kind in enumerate(kinds):
        if kind == "e":
            store.event(float(n), "info", "s", str(n))
        else:
            order(store, str(n), float(n))
    pages = older(store, limit)
    assert [name(e) for page in reversed(pages) for e in page.entries] == [
        str(n) for n in range(len(kinds))
    ]
    # What comes after the first page is found from its mark on, in order.
    for n in range(3):
        store.event(100.0 + n, "info", "s", f"new{n}")
    order(store, "new3", 103.0)
    found: list[str] = []
    after = pages[0].after
    while True:
        page = store.journal(JournalQuery(after=after, limit=limit), FOR_EVER)
        found += [name(e) for e in page.entries]
        after = page.after
        if page.done:
            break
    assert found == ["new0", "new1", "new2", "new3"]
    # The borders of a page are the same from both sides.
    for page in pages:
        later = store.journal(JournalQuery(after=page.after, limit=limit), FOR_EVER)
        again = store.journal(JournalQuery(before=later.before, limit=limit), FOR_EVER)
        held = [name(e) for e in page.entries]
        assert not held or [name(e) for e in again.entries][-len(held) :] == held
    store.close()


def test_filters(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    for n in range(50):
        store.event(float(n), "info", "generate", f"100%_done {n}")
    store.event(50.0, "error", "server main", "CUDA error: out of memory")
    order(store, "a", 51.0)
    store.settle("a", "refused", "generation is not paused", 51.0)
    order(store, "b", 52.0, "cap")

    def texts(**filters: object) -> list[str]:
        return [name(e) for page in reversed(older(store, 7, **filters)) for e in page.entries]

    assert texts(severity="error") == ["CUDA error: out of memory"]
    assert texts(severity="warning") == ["CUDA error: out of memory", "a"]
    assert texts(source="SERVER") == ["CUDA error: out of memory"]
    assert texts(source="ui:") == ["a", "b"]
    assert texts(text="not paused") == ["a"]
    assert texts(text="%_done 4") == ["100%_done 4", *(f"100%_done {n}" for n in range(40, 50))]
    assert texts(text="%%") == []


def test_a_command_keeps_its_times_and_what_it_changed(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.sqlite")
    order(store, "a", 1.0)
    edits = (Edit(("pause",), "no", "hold"),)
    store.accept("a", Desired(seq=1), 2.0, None, lambda: store.note("a", "held", edits, "goes on"))
    store.settle("a", "accepted", "half way", 2.5)
    store.settle("a", "in_effect", "", 3.0)
    stored = store.command("a")
    assert stored is not None and stored.edits == edits
    status = stored.status
    assert (status.at, status.accepted_at, status.effect_at) == (1.0, 2.0, 3.0)
    assert (status.sentence, status.undo) == ("held", "goes on")
    # As it was then, for a replay.
    states = []
    for until in (0.5, 1.5, 2.5, 3.5):
        page = store.journal(JournalQuery(), until)
        states += [e.command.state for e in page.entries if e.command]
    assert states == ["requested", "accepted", "in_effect"]
    assert [c.status.id for c in store.undoable()] == ["a"]
    assert [c.status.id for c in store.commands_like("a")] == ["a"]
    assert store.commands_like("b") == []


def test_a_state_file_of_before_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE commands (id TEXT PRIMARY KEY, verb TEXT NOT NULL, args TEXT NOT NULL, "
            "origin TEXT NOT NULL, state TEXT NOT NULL, at REAL NOT NULL, updated REAL NOT NULL, "
            "reason TEXT NOT NULL DEFAULT '', seq INTEGER)"
        )
        db.execute("INSERT INTO commands VALUES ('a','pause','{}','me','in_effect',1,1,'',1)")
        db.execute("PRAGMA user_version=1")
    db.close()
    still = Store(path, reading="still")
    assert [name(e) for e in still.journal(JournalQuery(text="pause"), FOR_EVER).entries] == ["a"]
    still.close()
    store = Store(path)
    order(store, "b", 2.0)
    assert [name(e) for e in store.journal(JournalQuery(), FOR_EVER).entries] == ["a", "b"]


@pytest.mark.parametrize("rows", [200_000])
def test_a_page_of_a_long_run_costs_no_more(rows: int) -> None:
    store = Store(Path(":memory:"))
    with store.transaction():
        store._db.executemany(
            "INSERT INTO events (at, severity, source, text) VALUES (?, 'info', 's', 't')",
            ((float(n),) for n in range(rows)),
        )
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store._db.set_progress_handler(count, 100)
    page = store.journal(JournalQuery(limit=100), FOR_EVER)
    store.journal(JournalQuery(limit=100, before=page.before), FOR_EVER)
    assert steps < 200, "instructions do not grow with the table"
