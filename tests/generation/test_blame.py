"""A server that answers nothing but errors costs time, and no prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.pipeline.generation import blame
from eagle_tui.pipeline.generation.blame import PROMPTS, Blame

from .fake_faults import Script
from .fake_server import FakeServer
from .world import World, make_world

MANY = PROMPTS * 4


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are short here."""
    monkeypatch.setattr(blame, "LONGEST_S", 0.05)
    monkeypatch.setattr("eagle_tui.pipeline.generation.policy.FIRST_WAIT_S", 0.05)
    monkeypatch.setattr("eagle_tui.pipeline.generation.policy.LONGEST_WAIT_S", 0.2)


async def run_with(world: World, script: Script) -> FakeServer:
    async with FakeServer(token_s=0.0005, script=script) as server:
        world.endpoint(server.url)
        await world.generate()
    return server


def test_different_prompts_in_a_row_are_needed() -> None:
    found = Blame()
    for _ in range(PROMPTS * 2):
        found.failed("a")
    assert not found.sick, "one bad prompt"
    for n in range(PROMPTS - 1):
        found.failed(str(n))
    assert found.sick and found.prompts == PROMPTS
    assert found.answered() and not found.sick and not found.answered()


def test_trials_come_less_often_while_it_stays_sick() -> None:
    found = Blame()
    waits = [found.next_trial_s() for _ in range(3)]
    assert waits == sorted(waits) and max(waits) <= blame.LONGEST_S


@pytest.mark.parametrize("fault", ["500_text", "500_json", "400_unknown", "html", "garbled"])
async def test_a_sick_server_costs_no_prompt(tmp_path: Path, fault: str) -> None:
    world = make_world(tmp_path / "run", {"b1": MANY})
    asked: list[int] = []

    def script(prompt: list[int], times: int) -> str | None:
        asked.append(1)
        return fault if len(asked) < PROMPTS + 25 else None

    await run_with(world, script)
    assert world.check() == {"complete": MANY, "dead": 0}
    said = [event["text"] for event in world.events("note")]
    assert sum("answers nothing but errors" in text for text in said) == 1
    assert sum("answers again" in text for text in said) == 1


async def test_prompts_that_nobody_can_answer_are_given_up(tmp_path: Path) -> None:
    """Without a prompt that was not tried, it may be the prompts: the phase comes to an end."""
    world = make_world(tmp_path / "run", {"b1": PROMPTS + 10})
    await run_with(world, lambda prompt, times: "500_text")
    assert world.check() == {"dead": PROMPTS + 10}


async def test_the_other_server_does_the_work(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": MANY})
    async with (
        FakeServer(token_s=0.0005, script=lambda prompt, times: "500_json") as sick,
        FakeServer(token_s=0.0005) as well,
    ):
        world.endpoint(sick.url, well.url)
        await world.generate()
    assert world.check() == {"complete": MANY, "dead": 0}
    assert len(sick.rids) < MANY
