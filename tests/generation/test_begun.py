"""How far the answers are that are not finished: what the estimate is made from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.generation import report
from eagle_tui.pipeline.generation.begun import rounded

from .fake_server import FakeServer
from .test_pause import mode, until
from .world import World, make_world


@given(st.integers(1, 200_000))
def test_lengths_are_told_within_nine_per_cent(tokens: int) -> None:
    assert abs(rounded(tokens) - tokens) <= 0.5 + 0.0906 * tokens
    assert rounded(rounded(tokens)) == rounded(tokens)


def test_nothing_so_far() -> None:
    assert rounded(0) == 0


def told(world: World) -> dict[int, int]:
    events = world.events("begun")
    return {int(n): count for n, count in events[-1]["datasets"]["b1"].items()} if events else {}


async def test_in_flight_and_held_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "BEGUN_INTERVAL_S", 0.0)
    world = make_world(tmp_path / "run", {"b1": 40}, generate={"journal_tokens": 4})
    async with FakeServer(token_s=0.02) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: any(n > 8 for n in told(world)))
        assert sum(told(world).values()) == 16
        world.want(pause="hold")
        await until(lambda: mode(world) == "paused")
        await until(lambda: bool(told(world)) and 0 not in told(world))
        assert 0 < sum(told(world).values()) <= 16
        server.token_s = 0.0005
        world.want(pause="no")
        await run
    assert told(world) == {}
    world.check()
