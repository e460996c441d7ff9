"""`[generate.policy]`: keep, retry, drop."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from eagle_tui.config import ConfigError, load_config
from eagle_tui.config.policy import PolicySection, Rule, parse
from eagle_tui.pipeline.generation import policy
from eagle_tui.pipeline.generation.jobs import Job

from .test_faults import always, run_with
from .world import make_world


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("keep", Rule(0, False)),
        ("drop", Rule(0, True)),
        ("retry 0", Rule(0, False)),
        ("retry 12", Rule(12, False)),
        ("retry 100 then drop", Rule(100, True)),
    ],
)
def test_rules_are_read(text: str, rule: Rule) -> None:
    assert parse(text) == rule


@pytest.mark.parametrize("text", ["", "retry", "retry 101", "retry -1", "Keep", "keep then drop"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected keep, drop, retry N"):
        parse(text)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"truncated": "often"}, "generate.policy.truncated: expected keep, drop, retry N"),
        ({"failed": "keep"}, "generate.policy.failed: expected drop or retry N"),
        ({"aborted": "retry 2 then drop"}, "generate.policy.aborted: expected drop or retry N"),
        ({"over_context": "drop"}, "unknown key 'over_context' in generate.policy"),
    ],
)
def test_a_wrong_rule_is_said_with_its_place(
    tmp_path: Path, setting: dict[str, str], sentence: str
) -> None:
    world = make_world(tmp_path / "run", generate={"policy": setting})
    with pytest.raises(ConfigError) as caught:
        load_config(world.run.config)
    assert sentence in caught.value.problems[0]


def test_each_state_counts_its_own_retries() -> None:
    rules = PolicySection(truncated="retry 1", loop="retry 2 then drop", no_answer="keep")
    job = Job(0, "a")
    found = [
        policy.after_answer(job, state, rules)
        for state in ("truncated", "loop", "loop", "loop", "truncated", "no_answer", "complete")
    ]
    assert found == ["again", "again", "again", "drop", "keep", "keep", "keep"]


def test_what_is_given_up_has_the_state_of_its_cause() -> None:
    rules = PolicySection(failed="drop", aborted="retry 1")
    job = Job(0, "a")
    assert isinstance(policy.after_abort(job, "m", rules, Random(0)), policy.Again)
    dead = policy.after_abort(job, "m", rules, Random(0))
    assert isinstance(dead, policy.Dead) and dead.state == "aborted"
    stalled = policy.after_stall(Job(0, "a"), "m", rules, Random(0))
    assert isinstance(stalled, policy.Dead) and stalled.state == "failed"


async def test_dropped_answers_are_dead_letters_and_count_as_their_state(tmp_path: Path) -> None:
    rules = {"truncated": "drop", "loop": "retry 1 then drop"}
    world = make_world(
        tmp_path / "run", {"b1": 30}, generate={"max_new_tokens": 100, "policy": rules}
    )
    script = always("loop", 7)
    cut = always("in_thought", 3)
    server = await run_with(world, lambda p, times: script(p, times) or cut(p, times))
    world.check()
    states = world.counts()["b1"]["states"]
    assert states["loop"] == 3 and states["truncated"] >= 3
    assert {row["state"] for row in world.rows()} == {"complete"}
    letters = world.dead()
    assert [row["final"] for row in letters if row["state"] == "loop"].count(True) == 3
    for row in letters:
        asked = server.asked[tuple(world.prompts["b1"][row["id"]])]
        assert asked == (2 if row["state"] == "loop" else 1)
        assert (len(row["output_ids"]) == 100 and row["reasoning"]) or row["content"]
    # The counts hold no token of them, now and after a restart.
    tokens = sum(row["usage"]["completion_tokens"] for row in world.rows())
    assert world.counts()["b1"]["tokens"] == tokens
    told = [e for e in world.events("result") if not e["stored"]]
    assert len(told) == states["loop"] + states["truncated"] and not any(e["ct"] for e in told)
    await world.generate()
    assert world.events("result") == []
    assert world.events("dataset")[0]["states"] == states
    assert world.events("dataset")[0]["tokens"] == tokens


async def test_truncated_is_asked_for_again_and_then_kept(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10}, generate={"policy": {"truncated": "retry 2"}})
    server = await run_with(world, always("in_thought", 3))
    row = next(row for row in world.rows() if row["state"] == "truncated")
    assert server.asked[tuple(row["prompt_ids"])] == 3
    assert [letter["final"] for letter in world.dead()] == [False, False]


async def test_aborted_by_others_without_progress_is_given_up_as_aborted(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 10}, generate={"policy": {"aborted": "drop"}})
    await run_with(world, always("abort_empty", 3))
    assert world.check() == {"complete": 9, "dead": 1}
    letter = world.dead()[0]
    assert (letter["state"], letter["final"]) == ("aborted", True)
    assert "ended on the server" in letter["reason"]
