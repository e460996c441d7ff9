"""Before the flood: does the model reason?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from eagle_tui.pipeline.generation import probe as probe_module
from eagle_tui.pipeline.generation.probe import LOOKS, PATIENCE_S, Probe
from eagle_tui.pipeline.worker import Refused

from .fake_server import FakeServer
from .language import CLOSE, END, speech, split
from .test_pause import until
from .world import make_world

THOUGHT = split([11, 12, CLOSE, 13, END], True)
NONE = split([CLOSE, 13, END], True)


def test_one_at_a_time_until_a_thought_is_seen() -> None:
    probe = Probe("refuse", needed=True, now=0.0)
    assert not probe.holds(0, 0.0) and probe.holds(1, 1.0)
    probe.judge(True, NONE)
    assert not probe.holds(0, 2.0) and probe.holds(1, 3.0)
    probe.judge(True, THOUGHT)
    assert not probe.holds(1, 4.0)
    for _ in range(LOOKS):
        probe.judge(True, NONE)
    assert not probe.refusal and not probe.warning


def test_a_long_first_answer_keeps_nobody_waiting() -> None:
    probe = Probe("refuse", needed=True, now=0.0)
    assert not probe.holds(0, 100.0)
    assert probe.holds(1, 100.0 + PATIENCE_S - 1) and not probe.holds(1, 100.0 + PATIENCE_S)
    probe = Probe("refuse", needed=True, now=0.0)
    probe.see(True, speech(), [CLOSE, 11])
    assert probe.holds(1, 1.0)
    probe.see(True, speech(), [11, 12])  # goes on, and its thought shows
    assert not probe.holds(1, 1.0)


@pytest.mark.parametrize(
    ("mode", "opened", "refused", "warned"),
    [
        ("refuse", True, True, False),
        ("refuse", False, False, True),
        ("warn", True, False, True),
        ("off", True, False, False),
    ],
)
def test_answers_without_a_thought(mode: str, opened: bool, refused: bool, warned: bool) -> None:
    probe = Probe(mode, needed=True, now=0.0)  # type: ignore[arg-type]
    for _ in range(LOOKS):
        probe.judge(opened, NONE)
    assert (bool(probe.refusal), bool(probe.warning)) == (refused, warned)
    assert not Probe("refuse", needed=False, now=0.0).holds(1, 0.0)


async def test_a_model_that_does_not_reason_is_refused_after_three_answers_which_are_kept(
    tmp_path: Path,
) -> None:
    world = make_world(tmp_path / "run", {"b1": 50}, generate={"probe": "refuse"})
    async with FakeServer(script=lambda prompt, times: "no_thought") as server:
        world.endpoint(server.url)
        with pytest.raises(Refused, match=r"target.reasoning.*probe = \"warn\""):
            await world.generate()
        assert server.most_live == 1 and len(server.rids) == LOOKS
        assert len(world.rows()) == LOOKS, "nothing is wasted"
        text = world.run.config.read_text()
        world.run.config.write_text(text.replace('probe = "refuse"', 'probe = "warn"'))
        await world.generate()
    assert len(world.rows()) == 50
    warnings = [e for e in world.events("note") if "hold no reasoning" in e["text"]]
    assert len(warnings) == 1 and warnings[0]["severity"] == "warning"


async def test_the_flood_comes_after_the_first_thought(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 50}, generate={"probe": "refuse"})
    async with FakeServer(token_s=0.005) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: bool(server.live))
        assert len(server.live) == 1
        await until(lambda: len(server.live) == 16)
        server.token_s = 0.0
        await run
        assert world.check() == {"complete": 50, "dead": 0}
        # Rows with thoughts are proof enough for the next worker.
        server.most_live = 0
        world.run.responses("b1").write_bytes(
            b"".join(world.run.responses("b1").read_bytes().splitlines(keepends=True)[:10])
        )
        server.token_s = 0.01
        run = world.start()
        await until(lambda: len(server.live) == 16)
        await run
    assert max(server.asked.values()) == 2


async def test_a_first_answer_that_hangs_does_not_hold_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_module, "PATIENCE_S", 0.3)
    world = make_world(tmp_path / "run", {"b1": 20}, generate={"probe": "refuse"})
    first: list[list[int]] = []

    def script(prompt: list[int], times: int) -> str | None:
        if not first:
            first.append(prompt)
        return "hang_abortable" if prompt == first[0] and times == 1 else None

    async with FakeServer(script=script) as server:
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(world.rows()) == 19)
        world.want(pause="hold")
        await asyncio.sleep(0.3)
        world.want(pause="no")
        await run
    assert world.check() == {"complete": 20, "dead": 0}
