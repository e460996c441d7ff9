"""Lock and socket that are removed under a supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from eagle_tui import proc
from eagle_tui.rundir import owner
from eagle_tui.rundir.paths import RunDir
from eagle_tui.rundir.unixsocket import address
from eagle_tui.supervisor import door
from eagle_tui.supervisor.door import Door


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here"})


class Behind:
    """A door that is served, and who was told to have taken the run."""

    def __init__(self, root: Path) -> None:
        self.run = RunDir.at(root)
        me = proc.current()
        self.door = Door(self.run, owner.take(self.run.lock, me.pid, 1), me.pid, 1)
        self.taken: list[str] = []

    async def during(self, act: Callable[[], Any]) -> None:
        config = uvicorn.Config(answer, log_config=None, lifespan="off", ws="none")
        serving = asyncio.create_task(self.door.serve(config, self.taken.append))
        try:
            await act()
        finally:
            self.door.close()
            await serving
            self.door.leave()

    async def answers(self) -> bool:
        transport = httpx.AsyncHTTPTransport(uds=address(self.run.socket))
        async with httpx.AsyncClient(transport=transport, base_url="http://run") as client:
            try:
                return (await client.get("/")).text == "here"
            except httpx.HTTPError:
                return False

    async def until_it_answers(self) -> None:
        for _ in range(500):
            if await self.answers():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("no answer")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "LOOK_S", 0.02)


async def test_what_is_removed_is_put_back(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    run = behind.run

    async def act() -> None:
        await behind.until_it_answers()
        for _ in range(2):
            run.socket.unlink()
            run.lock.unlink()
            await behind.until_it_answers()
            assert run.socket.stat().st_mode & 0o777 == 0o600
        with pytest.raises(owner.Taken, match=f"pid {os.getpid()}"):
            owner.take(run.lock, 5, 5)

    await behind.during(act)
    assert not run.socket.exists() and behind.taken == []
    os.close(owner.take(run.lock, 5, 5))  # let go of


async def test_a_supervisor_that_lost_its_run_leaves_it_to_the_other(tmp_path: Path) -> None:
    behind = Behind(tmp_path)
    run = behind.run

    async def act() -> None:
        await behind.until_it_answers()
        run.lock.unlink()
        other = owner.take(run.lock, 77, 1)
        theirs = door.listen(run.socket)
        for _ in range(500):
            if behind.taken:
                break
            await asyncio.sleep(0.02)
        os.close(other)
        theirs.close()

    await behind.during(act)
    assert behind.taken == [f"pid 77 on host {os.uname().nodename}"]
    assert run.socket.exists(), "it is the other one's"


async def test_a_directory_that_was_moved_away_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    behind = Behind(tmp_path / "run")

    async def act() -> None:
        await behind.until_it_answers()
        (tmp_path / "run").rename(tmp_path / "moved")
        await asyncio.sleep(0.1)
        assert not (tmp_path / "run").exists()

    await behind.during(act)


async def test_a_path_that_cannot_be_looked_at_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "parent" / "run").mkdir(parents=True)
    behind = Behind(tmp_path / "parent" / "run")

    async def act() -> None:
        await behind.until_it_answers()
        (tmp_path / "parent").rename(tmp_path / "moved")
        (tmp_path / "parent").write_text("a file: what is behind it cannot be known")
        await asyncio.sleep(0.1)
        (tmp_path / "parent").unlink()
        (tmp_path / "moved").rename(tmp_path / "parent")
        behind.run.socket.unlink()
        await behind.until_it_answers()
        (tmp_path / "parent").rename(tmp_path / "moved")
        (tmp_path / "parent").write_text("once more, while it leaves")

    await behind.during(act)
    assert behind.taken == []


async def test_it_leaves_at_once_though_it_wakes_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "HEADERS_S", 3600.0)
    behind = Behind(tmp_path)
    async with asyncio.timeout(60):
        await behind.during(behind.until_it_answers)
