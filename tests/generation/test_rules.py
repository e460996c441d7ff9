"""The pure rules: loops, answers, states, retries, mode, figures, requests."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.config.model import GenerateSection
from eagle_tui.pipeline.generation import policy
from eagle_tui.pipeline.generation.adaptive import Load
from eagle_tui.pipeline.generation.answers import Answer, Trouble, error_message, read_outcome
from eagle_tui.pipeline.generation.client import load_of, metrics_load
from eagle_tui.pipeline.generation.figures import Figures
from eagle_tui.pipeline.generation.flow import decide
from eagle_tui.pipeline.generation.jobs import Job
from eagle_tui.pipeline.generation.judge import judge
from eagle_tui.pipeline.generation.loops import MAX_PERIOD, loop_period
from eagle_tui.pipeline.generation.pool import Pulse
from eagle_tui.pipeline.generation.prompts import Prompt
from eagle_tui.pipeline.generation.requests import Ended, Request, build, sampling_params

SETTINGS = GenerateSection()
WORDS = list(range(100, 400))


def test_no_loop_in_ordinary_text() -> None:
    rng = Random(1)
    assert loop_period([rng.randrange(1000) for _ in range(5000)]) is None
    assert loop_period([]) is None
    assert loop_period([5]) is None
    assert loop_period(WORDS + [7] * 60) is None, "a rule of dashes"
    assert loop_period(WORDS + [1, 2, 3] * 5) is None, "a short list"


@given(
    st.integers(1, MAX_PERIOD).flatmap(
        lambda period: st.tuples(
            st.lists(st.integers(0, 50), min_size=period, max_size=period), st.integers(0, period)
        )
    )
)
def test_every_repeated_piece_is_found_wherever_it_breaks_off(case: tuple[list[int], int]) -> None:
    piece, cut = case
    times = max(8, 200 // len(piece) + 2)
    ids = WORDS + piece * times + piece[:cut]
    period = loop_period(ids)
    assert period is not None and len(piece) % period == 0


@given(st.lists(st.integers(0, 3), max_size=600))
def test_a_found_loop_is_one(ids: list[int]) -> None:
    period = loop_period(ids)
    if period is not None:
        span = max(6 * period, 96)
        tail = ids[-span:]
        assert all(tail[i] == tail[i + period] for i in range(span - period))


@pytest.mark.parametrize(
    ("finish", "ids", "content", "state"),
    [
        ("stop", [5, 6, 2], "hi", "complete"),
        ("stop", [2], "", "no_answer"),
        ("stop", [5, 4, 2], " \n", "no_answer"),
        ("stop", [], "", "no_answer"),
        ("length", [5, 6, 7], "", "truncated"),
        ("length", [5, 6, 7], "hi", "truncated"),
        ("length", [11, 12] * 2000, "wait. " * 2000, "loop"),
        ("stop", [11] * 200 + [2], "0" * 200, "complete"),
        ("stop", [11] * 2000 + [2], "0" * 2000, "loop"),
    ],
)
def test_states(finish: Any, ids: list[int], content: str, state: str) -> None:
    assert judge(finish, ids, content) == state


FIXTURES = Path(__file__).parent / "fixtures"


def recorded(name: str) -> list[dict[str, Any]]:
    """Answers of real servers, from the fixtures beside this file."""
    return list(json.loads((FIXTURES / name).read_bytes())["exchanges"])


def body_of(exchange: dict[str, Any]) -> bytes:
    body = exchange["response"]["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


@pytest.mark.parametrize("version", ["0.5.17", "0.5.23"])
def test_recorded_answers(version: str) -> None:
    for exchange in recorded(f"generate-{version}.json"):
        outcome = read_outcome(exchange["response"]["status"], body_of(exchange))
        expected = exchange["expect"]
        if isinstance(outcome, Answer):
            found: dict[str, Any] = {
                "finish": outcome.finish,
                "tokens": len(outcome.output_ids),
                "plain_abort": outcome.plain_abort,
            }
        else:
            found = {"trouble": outcome.kind, "plain": outcome.plain}
        assert found == expected, exchange["label"]


@pytest.mark.parametrize(
    ("body", "message", "plain"),
    [
        (b'{"error":{"message":"a"}}', "a", False),
        (b'{"error":"a"}', "a", False),
        (b'{"object":"error","message":"a","type":"t","code":400}', "a", False),
        (b'{"detail":"Not Found"}', "Not Found", False),
        (b'{"detail":[{"msg":"x"}]}', '[{"msg": "x"}]', False),
        (b"Internal Server Error", "Internal Server Error", True),
        (b"\xff\xfe", "\ufffd\ufffd", True),
        (b"", "", True),
        (b"[1]", "[1]", False),
        (b'{"error":null}', "", False),
    ],
)
def test_every_error_body_is_read(body: bytes, message: str, plain: bool) -> None:
    assert error_message(body) == (message, plain)


@given(st.integers(100, 599), st.binary(max_size=200))
def test_any_response_is_read(status: int, body: bytes) -> None:
    outcome = read_outcome(status, body)
    assert isinstance(outcome, Trouble | Answer)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["output_ids", "meta_info", "finish_reason", "type", "length"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_any_json_with_200_is_read(body: Any) -> None:
    read_outcome(200, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("trouble", "attempts", "dead"),
    [
        (Trouble("over_context", "m"), 1, "over_context"),
        (Trouble("rejected", "m"), 2, "failed"),
        (Trouble("server_error", "m", 500, plain=True), 2, "failed"),
        (Trouble("server_error", "m", 500), 4, "failed"),
        (Trouble("garbled", "m"), 4, "failed"),
        (Trouble("lost", "m"), policy.LOSSES + 1, "failed"),
        (Trouble("refused", "m"), 50, None),
        (Trouble("busy", "m"), 50, None),
        (Trouble("unavailable", "m"), 50, None),
        (Trouble("unauthorised", "m"), 50, None),
        (Trouble("wrong_server", "m"), 50, None),
    ],
)
def test_how_often_a_trouble_is_tried_again(
    trouble: Trouble, attempts: int, dead: str | None
) -> None:
    job, rng = Job(0, "a"), Random(0)
    for number in range(1, attempts + 1):
        decision = policy.after_trouble(job, trouble, SETTINGS.policy, rng)
        if number < attempts or dead is None:
            assert isinstance(decision, policy.Again)
            assert 0 <= decision.after_s <= policy.LONGEST_WAIT_S
        else:
            assert isinstance(decision, policy.Dead) and decision.state == dead


@pytest.mark.parametrize(
    ("status", "meanwhile", "dead"),
    [(502, True, True), (504, True, True), (503, True, False), (429, True, False),
     (502, False, False), (504, False, False)],
)  # fmt: skip
def test_a_prompt_that_a_router_alone_never_gets_answered_is_given_up(
    status: int, meanwhile: bool, dead: bool
) -> None:
    """It may bring down one worker after the other; a router that is down answers nobody."""
    job, rng = Job(0, "a"), Random(0)
    trouble = Trouble("unavailable", "m", status)
    for _ in range(policy.LOSSES):
        decision = policy.after_trouble(job, trouble, SETTINGS.policy, rng, meanwhile=meanwhile)
        assert isinstance(decision, policy.Again) and decision.after_s > 0
    decision = policy.after_trouble(job, trouble, SETTINGS.policy, rng, meanwhile=meanwhile)
    assert isinstance(decision, policy.Dead) is dead


def test_a_router_that_never_answers_is_waited_for_more_than_a_day_and_not_for_ever() -> None:
    job, rng = Job(0, "a"), Random(0)
    waited = 0.0
    trouble = Trouble("unavailable", "m", 502)
    while isinstance(
        found := policy.after_trouble(job, trouble, SETTINGS.policy, rng), policy.Again
    ):
        waited += found.after_s
    assert 24 * 3600 < waited < 48 * 3600 and "m" in found.reason


def test_first_dropped_connection_is_sent_again_at_once_and_free() -> None:
    job = Job(0, "a")
    dropped = Trouble("dropped", "m")
    assert policy.after_trouble(job, dropped, SETTINGS.policy, Random(0)) == policy.Again(0.0)
    later = policy.after_trouble(job, dropped, SETTINGS.policy, Random(0))
    assert isinstance(later, policy.Again) and later.after_s > 0
    assert job.tries == 0


@given(st.integers(0, 10_000))
def test_backoff_is_bounded(times: int) -> None:
    assert 0.25 <= policy.backoff(times, Random(times)) <= policy.LONGEST_WAIT_S


NOTHING: dict[str, Any] = {
    "pause": "no", "finish": False, "stopping": False, "in_flight": 0, "unsaved": False,
    "disk": "", "servers": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({}, "running"),
        ({"in_flight": 5}, "running"),
        ({"servers": "none"}, "waiting"),
        ({"disk": "full"}, "paused"),
        ({"pause": "hold", "in_flight": 3}, "draining"),
        ({"pause": "hold", "unsaved": True}, "draining"),
        ({"pause": "hold", "unsaved": True, "disk": "full"}, "paused"),
        ({"pause": "hold"}, "paused"),
        ({"pause": "drain", "in_flight": 1}, "draining"),
        ({"pause": "abort"}, "paused"),
        ({"finish": True, "pause": "hold"}, "finishing"),
        ({"stopping": True, "in_flight": 2}, "draining"),
    ],
)
def test_mode(changes: dict[str, Any], mode: str) -> None:
    flow = decide(**{**NOTHING, **changes})
    assert flow.mode == mode
    assert flow.sending == (mode == "running")
    assert flow.reason or mode == "running"


def test_figures_count_tokens_of_stored_rows_only() -> None:
    figures = Figures()
    figures.add("complete", 10, 4)
    figures.add("truncated", 20, 0)
    figures.add("failed", stored=False)
    assert (figures.tokens, figures.rows, figures.final, figures.reasoned) == (30, 2, 3, 1)
    assert figures.event()["lengths"] == {"10": 1, "20": 1}
    assert figures.summary()["tokens_p95"] == 20.0
    assert Figures().summary()["tokens_mean"] is None


def make(so_far: list[int] | None = None, **changes: Any) -> Any:
    job = Job(0, "a", so_far=array("I", so_far) if so_far else None)
    prompt = Prompt("a", changes.pop("prompt_ids", [5, 6, 7]), True, None)
    settings: dict[str, Any] = {
        "longest": 10, "context": 100, "vocabulary": 50, "eos_ids": {2},
        "sampling": sampling_params(SETTINGS),
    }  # fmt: skip
    return build(prompt, job, **{**settings, **changes})


def test_request_continues_what_was_begun() -> None:
    request = make([8, 9])
    assert isinstance(request, Request)
    body = json.loads(request.body)
    assert body["input_ids"] == [5, 6, 7, 8, 9]
    assert body["sampling_params"]["max_new_tokens"] == request.asked == 8
    assert body["sampling_params"]["temperature"] == 0.7 and "seed" not in body


def test_request_is_limited_by_the_context() -> None:
    assert make(context=13).asked == 8
    assert make([8, 9], context=13).asked == 6
    assert make(context=None).asked == 10
    assert make(context=8).state == "over_context"
    assert make([8] * 5, context=13) == Ended("length")


def test_request_is_not_needed_or_not_possible() -> None:
    assert make([8, 2]) == Ended("stop")
    assert make([8] * 10) == Ended("length")
    for ids in ([], [50], [-1]):
        assert make(prompt_ids=ids).state == "failed"


def test_counters_of_recorded_servers() -> None:
    for version in ("0.5.17", "0.5.23"):
        found = json.loads((FIXTURES / f"counters-{version}.json").read_bytes())
        assert load_of(found["loads"]).work == found["expect_loads"]
        assert metrics_load(found["metrics"]).work == found["expect_metrics"]
    assert load_of({"loads": "x"}) == load_of(None) == metrics_load("nothing") == Load()
    assert load_of({"loads": [{"decode_moments": None}]}).work == 0.0


def test_pulse_stands_still_only_without_progress() -> None:
    pulse = Pulse(0.0)
    pulse.note(True, 5.0, 10.0)
    assert pulse.still_s(12.0) == 2.0
    pulse.note(True, 5.0, 20.0)
    pulse.note(True, None, 30.0)
    assert pulse.still_s(30.0) == 20.0
    pulse.note(True, 1.0, 40.0)  # restarted: its counter fell
    assert pulse.still_s(40.0) == 0.0
    pulse.note(False, None, 50.0)
    assert not pulse.told and pulse.still_s(50.0) == 0.0
