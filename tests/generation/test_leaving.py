"""An endpoint that is about to stop: its requests are kept, waited for, or thrown away, as ordered,
while the other endpoint works on."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.pipeline.generation import report

from .fake_server import FakeServer
from .test_pause import until
from .world import World, make_world


def pieces(world: World) -> int:
    return max(int(row["pieces"]) for row in world.rows())


@pytest.mark.parametrize("how", ["held", "dropped", "drained"])
async def test_an_endpoint_that_leaves(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LOAD_INTERVAL_S", 0.05)
    world = make_world(tmp_path / "run", {"b1": 60})
    async with FakeServer(token_s=0.02) as leaving, FakeServer(token_s=0.02) as staying:
        world.endpoint(leaving.url, staying.url)
        run = world.start()
        await until(lambda: len(leaving.live) >= 4 and len(staying.live) >= 4)
        names = {} if how == "drained" else {how: ("s0",)}
        world.want(endpoints=world.wish.endpoints[1:], **names)
        await until(lambda: world.events("flow")[-1]["seq"] == world.wish.seq)
        sent = len(leaving.rids)
        since = len(world.events("load"))
        await until(lambda: "s0" not in world.events("flow")[-1]["endpoints"])
        assert not leaving.live and len(leaving.rids) == sent, "nothing more is sent there"
        if how == "drained":
            # How many are still to come was told while they were waited for.
            told = [e["endpoints"].get("s0") for e in world.events("load")[since:]]
            assert any(one and one["in_flight"] for one in told)
        assert ("abort" in leaving.calls) == (how != "drained")
        assert "abort" not in staying.calls
        staying.token_s = leaving.token_s = 0.0005
        await run
    assert world.check() == {"complete": 60, "dead": 0}
    # Only what was held is continued from what there was of it.
    assert pieces(world) == (2 if how == "held" else 1)
