"""Growing text."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from eagle_tui.pipeline.engine.detokenizer import REPLACEMENT, Detokenizer
from eagle_tui.pipeline.engine.random_model import make_tokenizer

TOKENIZER = make_tokenizer(600)


def _grow(ids: list[int], skip: bool = True) -> list[str]:
    detokenizer = Detokenizer(TOKENIZER, skip_special_tokens=skip)
    steps = [detokenizer.feed(ids[: i + 1]) for i in range(len(ids))]
    return [*steps, detokenizer.finish(ids)]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_any_text_comes_out_whole(text: str) -> None:
    ids = TOKENIZER.encode(text)
    steps = _grow(ids)
    assert steps[-1] == text == TOKENIZER.decode(ids)
    assert all(text.startswith(step) for step in steps)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=40), st.booleans())
def test_any_tokens_grow_to_what_decoding_all_gives(ids: list[int], skip: bool) -> None:
    steps = _grow(ids, skip)
    assert steps[-1] == TOKENIZER.decode(ids, skip_special_tokens=skip)
    for earlier, later in itertools.pairwise(steps):
        assert later.startswith(earlier)
        assert not earlier.endswith(REPLACEMENT)


def test_half_a_character_waits() -> None:
    ids = TOKENIZER.encode("a☃b")
    assert len(ids) == 5  # the snowman is three byte tokens
    assert _grow(ids) == ["a", "a", "a", "a☃", "a☃b", "a☃b"]
    assert _grow(ids[:3])[-1] == "a" + REPLACEMENT


def test_the_end_may_be_taken_off_again() -> None:
    ids = TOKENIZER.encode("hello world")
    detokenizer = Detokenizer(TOKENIZER, skip_special_tokens=True)
    detokenizer.feed(ids)
    assert detokenizer.finish(ids[:-1]) == TOKENIZER.decode(ids[:-1])


@pytest.mark.parametrize("skip", [True, False])
def test_special_tokens(model_dir: Path, skip: bool) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    ids = [tokenizer.eos_token_id, *tokenizer.encode("<think>x</think>")]
    shown = Detokenizer(tokenizer, skip_special_tokens=skip).finish(ids)
    assert shown == ("" if skip else tokenizer.eos_token) + "<think>x</think>"
