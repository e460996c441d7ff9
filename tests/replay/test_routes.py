"""A supervisor's socket and a replay of the same directory tell the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
import uvicorn

from eagle_tui.cli.look import at_end
from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError
from eagle_tui.clock import ManualClock
from eagle_tui.history import Recorder
from eagle_tui.protocol import Status
from eagle_tui.replay.client import ReplayClient
from eagle_tui.rundir.paths import RunDir
from eagle_tui.rundir.unixsocket import address
from eagle_tui.supervisor.app import make_app
from eagle_tui.supervisor.archive import Archive
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.supervisor.store import Store

START = 1_800_000_000.0
END = START + 3600.0


@pytest_asyncio.fixture
async def live(recorded: RunDir) -> AsyncIterator[SocketClient]:
    """A client of the routes, over the parts of a supervisor that they ask."""
    store = Store(recorded.state)
    status = Status.from_json(json.loads((recorded.root / "status.json").read_text()))
    parts = SimpleNamespace(
        store=store,
        archive=Archive(recorded, store),
        recorder=Recorder(store),
        clock=ManualClock(wall=END),
        status=status,
        board=SimpleNamespace(run=recorded),
    )
    app = make_app(cast(Supervisor, parts))
    config = uvicorn.Config(
        app, uds=address(recorded.socket), log_config=None, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    client = SocketClient(recorded, revive=False)
    yield client
    await client.close()
    server.should_exit = True
    await serving
    store.close()


@pytest_asyncio.fixture
async def past(recorded: RunDir) -> AsyncIterator[ReplayClient]:
    client = ReplayClient.open(recorded, at_end)
    yield client
    await client.close()


async def test_both_tell_the_same(past: ReplayClient, live: SocketClient) -> None:
    names = await live.series()
    assert names == await past.series() and "gpu0.temp_c" in names
    questions: list[tuple[Any, ...]] = [
        (START, 10.0),
        (END - 600, 1.0),
        (START, 60.0, START + 1200),
        (END - 5, 1.0, END),
    ]
    for name in ("tok_s", "gpu0.temp_c", "dataset.b1_glaive.done", "no such"):
        for question in questions:
            assert await live.history(name, *question) == await past.history(name, *question)
    assert await live.marks(START + 100) == await past.marks(START + 100)
    assert await live.estimates() == await past.estimates()
    assert await live.events(1, 10) == await past.events(1, 10)
    assert (await past.events(1, 10))[0].id == 2


async def test_a_window_has_both_ends(live: SocketClient) -> None:
    found = await live.history("tok_s", START + 600, 10.0, START + 900)
    assert (found.points[0].t, found.points[-1].t) == (START + 600, START + 900)
    assert len(found.points) == 31


async def test_the_report_is_written_by_the_supervisor(
    live: SocketClient, past: ReplayClient, recorded: RunDir
) -> None:
    path = Path(await live.report())
    assert path.parent == recorded.reports
    assert "## Estimates against actuals" in path.read_text()
    with pytest.raises(ClientError, match="A replay writes nothing"):
        await past.report()


async def test_a_wrong_question_is_a_sentence(live: SocketClient) -> None:
    for params in ({"since": "soon"}, {"since": "nan"}, {"step": "inf"}):
        code, body = await live._http.ask("GET", "/v1/history", params=params)
        assert code == 400
        assert "expected a number" in json.loads(body)["error"]
