"""A replay answers from the directory as the run would have then, and never writes to it."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from eagle_tui.client_api import ClientError
from eagle_tui.clock import ManualClock
from eagle_tui.records import SampleQuery
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import Timeline
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.store import Store

START = 1_800_000_000.0
HOUR = 3600.0


def begin(at: float = 0.0) -> Callable[[float, float], Timeline]:
    return lambda start, end: Timeline(ManualClock(), start, end, start + at)


@pytest_asyncio.fixture
async def client(recorded: RunDir) -> AsyncIterator[ReplayClient]:
    client = ReplayClient.open(recorded, begin())
    yield client
    await client.close()


def contents(root: Path) -> dict[str, str]:
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


async def test_the_run_as_it_was(client: ReplayClient) -> None:
    time = client.timeline
    assert (time.start, time.end) == (START, START + HOUR)
    time.seek(START + 1000)
    status = await client.status()
    assert status.at == START + 1000 and status.run.elapsed_s == 1000
    assert status.datasets[2].complete == 1000
    assert next(p.state for p in status.phases if p.name == "generate") == "running"
    time.seek(START + 1801)
    status = await client.status()
    assert next(p.state for p in status.phases if p.name == "generate") == "paused"
    assert status.servers[0].running == 0
    time.seek(0)
    assert (await client.status()).datasets[2].complete == 0
    time.seek(START + HOUR)
    assert (await client.status()).datasets[2].complete == HOUR


async def test_nothing_of_what_came_later_is_told(client: ReplayClient) -> None:
    client.timeline.seek(START + 1900)
    events = await client.events(0, 100)
    assert [e.text for e in events] == ["started (attempt 1)", "pause: hold"]
    assert await client.events(events[-1].id, 100) == []
    assert [m.kind for m in await client.marks(START)] == ["phase", "pause"]
    assert [e.done for e in await client.estimates()] == [60, 720]
    client.timeline.seek(START + 100)
    assert [e.done for e in await client.estimates()] == [60]
    found = await client.samples(None, "newest", 5)
    assert [s.content for s in found] == ["answer 1", "answer 0"]
    client.timeline.seek(START + 2550)
    longest = await client.samples(None, "longest", 2)
    assert [s.content for s in longest] == ["answer 25", "answer 24"]


async def test_history_until_then(client: ReplayClient) -> None:
    client.timeline.seek(START + 1700)
    found = await client.history("tok_s", START, 10.0)
    assert found.points[-1].t == START + 1700 and found.step_s == 10.0
    assert found.points[100].mean == pytest.approx(800 + 100 + 0.25)
    window = await client.history("tok_s", START + 100, 60.0, until=START + 500)
    assert window.step_s == 60.0 and window.points[-1].t <= START + 500
    assert "gpu3.power_w" in await client.series()
    assert (await client.history("no such", START, 1.0)).points == ()


async def test_marks_to_jump_to(client: ReplayClient) -> None:
    async def jump(forward: bool) -> str | None:
        mark = await client.neighbour_mark(forward)
        if mark is None:
            return None
        client.timeline.seek(mark.at)
        return mark.text

    assert [await jump(True) for _ in range(4)] == ["generate starts", "pause hold", "resume", None]
    assert await jump(False) == "pause hold"


async def test_orders_are_refused_with_a_sentence(client: ReplayClient) -> None:
    preview = await client.preview("pause", {})
    assert not preview.allowed and "replay" in preview.sentence
    answer = await client.command("pause", {"mode": "hold"})
    assert answer.state == "refused" and "takes no orders" in answer.reason


async def test_a_time_without_supervisor_says_so(recorded: RunDir) -> None:
    store = Store(recorded.state)
    found = store.snapshot(START + HOUR)
    assert found is not None
    store.put_snapshot(START + 10 * HOUR, found[1])
    store.close()
    client = ReplayClient.open(recorded, begin(5 * HOUR))
    status = await client.status()
    await client.close()
    assert status.supervisor.state == "gone" and status.at == START + HOUR


@pytest.mark.parametrize("state", ["in order", "killed", "read-only"])
async def test_the_directory_is_left_as_it_is(tmp_path: Path, recorded: RunDir, state: str) -> None:
    root = recorded.root
    if state == "killed":
        # As a kill -9 leaves it: what was written last is in the log beside the file alone.
        db = sqlite3.connect(recorded.state)
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("UPDATE events SET text = 'only in the log' WHERE id = 1")
        db.commit()
        root = tmp_path / "copy"
        shutil.copytree(recorded.root, root)
        db.close()
        assert (root / "state.sqlite-wal").stat().st_size
    before = contents(root)
    if state == "read-only":
        for path in (root / "state.sqlite", root):
            path.chmod(0o555 if path.is_dir() else 0o444)
    client = ReplayClient.open(RunDir.at(root), begin(HOUR))
    events = await client.events(0, 100)
    await client.history("tok_s", 0.0, 1.0)
    await client.samples(None, "newest", 5)
    await client.close()
    root.chmod(0o755)
    assert len(events) == 4
    assert (events[0].text == "only in the log") == (state == "killed")
    assert contents(root) == before


async def test_while_a_supervisor_writes(recorded: RunDir) -> None:
    store = Store(recorded.state)
    client = ReplayClient.open(recorded, begin(HOUR), live=True)
    store.event(START + 100, "info", "x", "new")
    assert "new" in [e.text for e in await client.events(0, 100)]
    await client.close()
    store.close()


async def test_a_state_file_of_an_older_program(recorded: RunDir) -> None:
    db = sqlite3.connect(recorded.state)
    for table in ("estimates", "marks", "retunes", "launches"):
        db.execute(f"DROP TABLE {table}")
    db.commit()
    db.close()
    client = ReplayClient.open(recorded, begin(HOUR))
    assert (await client.marks(0), await client.estimates()) == ([], [])
    assert len(await client.events(0, 10)) == 4
    await client.close()


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    with pytest.raises(ClientError, match="no state file"):
        ReplayClient.open(run, begin())
    Store(run.state).close()
    with pytest.raises(ClientError, match="no snapshots"):
        ReplayClient.open(run, begin())
    run.state.write_bytes(b"not a database" * 100)
    with pytest.raises(ClientError, match="not a database"):
        ReplayClient.open(run, begin())


async def test_what_is_read_of_files_is_of_then_too(client: ReplayClient) -> None:
    client.timeline.seek(START + 1150)
    page = await client.find_samples(SampleQuery(limit=3))
    assert [head.id for head in page.heads] == ["s11", "s10", "s9"]
    sample = await client.sample("b1_glaive", "s11")
    assert sample.content == "answer 11"
