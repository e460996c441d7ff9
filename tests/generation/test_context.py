"""Where the context ends: what we ask for is what the server gives, and no answer is lost there."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.engine.requests import Limits, check_prompt
from eagle_tui.pipeline.engine.sampling import SamplingParams
from eagle_tui.pipeline.generation.jobs import Job
from eagle_tui.pipeline.generation.prompts import Prompt
from eagle_tui.pipeline.generation.requests import Ended, Request, build

from .test_faults import run_with
from .world import make_world


@given(
    context=st.integers(8, 60),
    prompt=st.integers(1, 60),
    so_far=st.integers(0, 60),
    longest=st.integers(1, 60),
)
def test_the_server_takes_what_is_sent_and_gives_as_much_as_is_asked(
    context: int, prompt: int, so_far: int, longest: int
) -> None:
    """By SGLang's formula, with a KV cache that is large enough: `length` below what was asked
    then means a small one."""
    job = Job(0, "x", so_far=array("I", [7] * so_far) if so_far else None)
    found = build(
        Prompt("x", [5] * prompt, False, None),
        job,
        **{"longest": longest, "context": context, "vocabulary": 10, "eos_ids": {2}},
        sampling={},
    )
    if isinstance(found, Request):
        ids = json.loads(found.body)["input_ids"]
        asked = SamplingParams(max_new_tokens=found.asked, length_asked=True)
        assert len(ids) == prompt + so_far
        assert check_prompt(ids, asked, Limits(10, context, 10**6)) == found.asked > 0
    elif isinstance(found, Ended):
        assert so_far and (so_far >= longest or prompt + so_far > context - 6)
    else:
        assert found.state == "over_context" and prompt > context - 6


async def test_a_held_answer_that_the_server_takes_no_further_is_kept(tmp_path: Path) -> None:
    """Its KV cache is smaller than the context, and nearly full: 400 for what was begun."""
    world = make_world(tmp_path / "run", {"b1": 8})
    first: list[list[int]] = []

    def script(prompt: list[int], times: int) -> str | None:
        if not first:
            first.append(prompt)
        if prompt != first[0]:
            return None
        return "abort" if times == 1 else "400_context"

    await run_with(world, script)
    (row,) = [row for row in world.rows() if row["prompt_ids"] == first[0]]
    assert (row["state"], row["flag"]) == ("truncated", "pool") and row["output_ids"]
    assert not [letter for letter in world.dead() if letter["final"]]
