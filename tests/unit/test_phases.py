"""The phase machine as a table: facts in, state and launch out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.supervisor.phases import Deaths, Facts, decide


def facts(name: str = "generate", **changes: Any) -> Facts:
    base: dict[str, Any] = {
        "name": name,
        "wanted": True,
        "up": True,
        "upstream": (("prepare", "done"),),
        "made": False,
    }
    return Facts(**{**base, **changes})


@pytest.mark.parametrize(
    ("given_facts", "state", "launch", "said"),
    [
        (facts(), "running", True, "starting"),
        (facts(up=False), "pending", False, "eagle-tui up"),
        (facts(upstream=(("prepare", "running"),)), "pending", False, ""),
        (facts(upstream=(("prepare", "failed"),)), "blocked", False, "prepare is failed"),
        (facts(upstream=(("prepare", "stale"),)), "blocked", False, "prepare is stale"),
        (facts(made=True), "done", False, ""),
        (facts(made=True, early="12 prompts left"), "done", False, "early: 12 prompts left"),
        (facts(made=True, stale="changed: target"), "stale", False, "rerun generate"),
        (facts(failed="died 6 times"), "failed", False, "died 6 times"),
        (facts(made=True, failed="x"), "done", False, ""),
        (facts(retry_in_s=3.2, retry_reason="exit code 1"), "pending", False, "restart in 3 s"),
        (facts(pause="hold"), "paused", False, "before it began"),
        (facts("merge", pause="hold"), "running", True, "starting"),
        (facts(pause="hold", finishing=True), "running", True, "starting"),
        (facts("extract"), "running", True, "starting"),
        (facts(wanted=False), "blocked", False, "run.phases"),
        (facts(alive=True, flow_mode="running"), "running", False, ""),
        (facts(alive=True, flow_mode="paused", pause="hold"), "paused", False, ""),
        (facts(alive=True, flow_mode="running", pause="hold"), "draining", False, "pausing"),
        (facts(alive=True, flow_mode="draining", pause="drain"), "draining", False, ""),
        (facts(alive=True, flow_mode="waiting", flow_reason="no server"), "stalled", False, "no s"),
        (facts(alive=True, flow_mode="waiting", starting="server a"), "running", False, "server a"),
        (facts(alive=True, flow_mode="running", idle_s=999), "stalled", False, "999 s"),
        (facts("merge", alive=True), "running", False, ""),
        (facts(alive=True, made=True), "running", False, ""),
    ],
)
def test_table(given_facts: Facts, state: str, launch: bool, said: str) -> None:
    decision = decide(given_facts)
    assert (decision.state, decision.launch) == (state, launch)
    assert said in decision.reason


@given(
    st.builds(
        Facts,
        name=st.sampled_from(["prepare", "generate", "merge", "extract"]),
        wanted=st.booleans(),
        up=st.booleans(),
        upstream=st.lists(
            st.tuples(st.just("prepare"), st.sampled_from(["done", "running", "failed", "stale"])),
            max_size=2,
        ).map(tuple),
        made=st.booleans(),
        alive=st.booleans(),
        failed=st.sampled_from(["", "x"]),
        pause=st.sampled_from(["no", "hold", "drain", "abort"]),
        flow_mode=st.sampled_from(["", "running", "paused", "waiting", "draining"]),
    )
)
def test_a_launch_is_never_wrong(f: Facts) -> None:
    decision = decide(f)
    if decision.launch:
        assert not f.alive and not f.failed and f.up and f.wanted
        assert not f.made and all(state == "done" for _, state in f.upstream)
    if f.alive:
        assert decision.state in ("running", "paused", "draining", "stalled")


def test_backoff_doubles_up_to_a_minute_and_forgets() -> None:
    deaths = Deaths()
    waits = []
    for n in range(9):
        deaths = deaths.after(float(n), 600.0)
        waits.append(deaths.backoff_s(1.0))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert len(deaths.after(10_000.0, 600.0).times) == 1
