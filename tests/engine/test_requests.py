"""Bodies of /generate: what becomes of them without a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.engine.errors import Refusal, Shape
from eagle_tui.pipeline.engine.reasoning import ReasoningMarkers, reasoning_tokens
from eagle_tui.pipeline.engine.requests import (
    Limits,
    build_prompts,
    check_prompt,
    parse_json,
    read_call,
)
from eagle_tui.pipeline.engine.sampling import SamplingParams, parse_sampling_params

LIMITS = Limits(vocab_size=100, context_len=64, max_total_num_tokens=1000)


def _encode(text: str) -> list[int]:
    return [ord(letter) % 100 for letter in text]


def _refusal(body: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        build_prompts(read_call(body), LIMITS, _encode)
    return caught.value


def test_defaults() -> None:
    (prompt,) = build_prompts(read_call({"text": "ab"}), LIMITS, _encode)
    assert prompt.input_ids == (97, 98)
    assert len(prompt.rid) == 32
    assert prompt.params == SamplingParams()
    # 128 by default, but the context ends first; SGLang keeps two tokens back.
    assert prompt.max_new_tokens == 64 - 1 - 2 - 1


@pytest.mark.parametrize(("wanted", "given_"), [(None, 60), (0, 0), (7, 7), (62, 60)])
def test_new_tokens_are_cut_to_the_context(wanted: int | None, given_: int) -> None:
    assert check_prompt((1, 2), SamplingParams(max_new_tokens=wanted), LIMITS) == given_


def test_null_means_default_but_for_the_length() -> None:
    params = parse_sampling_params(
        {"temperature": None, "top_k": None, "stop": None, "max_new_tokens": None}
    )
    assert params == SamplingParams(max_new_tokens=None)


@pytest.mark.parametrize(
    ("body", "shape", "words"),
    [
        ([], Shape.OBJECT, "dictionary"),
        ({"text": 5}, Shape.OBJECT, "text"),
        ({"text": ["a", 5]}, Shape.OBJECT, "text"),
        ({"input_ids": "abc"}, Shape.OBJECT, "input_ids"),
        ({"input_ids": [1, "x"]}, Shape.OBJECT, "input_ids"),
        ({"input_ids": [1, True]}, Shape.OBJECT, "input_ids"),
        ({"input_ids": [[1], 2]}, Shape.OBJECT, "input_ids"),
        ({"text": "a", "rid": 7}, Shape.OBJECT, "rid"),
        ({"text": "a", "stream": "yes"}, Shape.OBJECT, "stream"),
        ({"text": "a", "sampling_params": "hot"}, Shape.OBJECT, "sampling_params"),
        ({"text": "a", "sampling_params": {"top_k": 1.5}}, Shape.SCHEMA, "`1.5`, expected i64"),
        ({"text": "a", "sampling_params": {"top_p": "x"}}, Shape.SCHEMA, '"x", expected f64'),
        ({"text": "a", "sampling_params": {"ignore_eos": 1}}, Shape.SCHEMA, "a boolean"),
        ({"text": "a", "sampling_params": {"stop": [1]}}, Shape.SCHEMA, "a string"),
        ({"text": "a", "sampling_params": {"seed": 1}}, Shape.SCHEMA, "unknown field `seed`"),
        ({"text": []}, Shape.MESSAGE, "empty list"),
        ({"text": ["a"], "sampling_params": [{}, {}]}, Shape.MESSAGE, "batch has 1"),
        ({"text": ["a", "b"], "rid": ["x"]}, Shape.MESSAGE, "there are 2 prompts"),
        ({"text": "a", "return_logprob": True}, Shape.MESSAGE, "return_logprob"),
        ({"text": "a", "return_hidden_states": [True]}, Shape.MESSAGE, "return_hidden_states"),
        ({"input_embeds": [[0.1]]}, Shape.MESSAGE, "input_embeds"),
        ({"text": "a", "sampling_params": {"logit_bias": {"1": 2}}}, Shape.MESSAGE, "logit_bias"),
        ({"text": "a", "sampling_params": {"n": 0}}, Shape.MESSAGE, "n must be"),
    ],
)
def test_refusals(body: object, shape: Shape, words: str) -> None:
    refusal = _refusal(body)
    assert (refusal.shape, refusal.status) == (shape, 400)
    assert words in refusal.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
keys = st.sampled_from(["text", "input_ids", "rid", "sampling_params", "stream", "n"])


@given(st.dictionaries(keys, json_values) | json_values)
def test_any_json_is_served_or_refused(body: Any) -> None:
    try:
        prompts = build_prompts(read_call(body), LIMITS, _encode)
    except Refusal as refusal:
        assert refusal.message and 400 <= refusal.status < 600
    else:
        assert prompts
        assert all(prompt.input_ids for prompt in prompts)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b'{"a": 1} x'])
def test_bytes_that_are_no_json(raw: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        parse_json(raw, "application/json")
    assert caught.value.shape is Shape.OBJECT


@pytest.mark.parametrize(
    ("kind", "fine"),
    [
        (None, True),
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/problem+json", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
    ],
)
def test_the_declared_type_has_to_be_json(kind: str | None, fine: bool) -> None:
    if fine:
        assert parse_json(b"{}", kind) == {}
    else:
        with pytest.raises(Refusal, match="content-type"):
            parse_json(b"{}", kind)


MARKERS = ReasoningMarkers(openers=((1,), (2, 3)), closers=((7, 8), (6,)))


@pytest.mark.parametrize(
    ("output", "required", "expected"),
    [
        ([5, 5, 7, 8, 9], True, 4),  # the closer counts
        ([5, 7, 5, 7, 8], True, 5),  # half a closer is none
        ([5, 5], True, 2),  # not closed yet
        ([], True, 0),
        ([5, 7, 8, 9], False, 0),
        ([1, 5, 7, 8, 9], False, 4),  # opened by the model itself; the opener counts
        ([2, 3, 5, 6, 7, 8], False, 4),  # the first closer of several
        ([2, 5, 6], False, 0),
    ],
)
def test_reasoning_tokens(output: list[int], required: bool, expected: int) -> None:
    assert reasoning_tokens(output, MARKERS, required=required) == expected
    assert reasoning_tokens(output, None, required=required) == 0


def test_an_unknown_parser_is_named() -> None:
    with pytest.raises(ValueError, match="nope"):
        ReasoningMarkers.of("nope", _encode)
