"""The real tokenizer of the shipped model."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.config import load_config
from eagle_tui.pipeline.generation.speech import _Fast, load_speech
from eagle_tui.pipeline.targets import load_tokenizer
from eagle_tui.pipeline.worker import Refused

from .world import make_world


def test_shipped_model_is_taken_apart(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run")
    config = load_config(world.run.config)
    speech = load_speech(config, world.run)
    tokenizer = load_tokenizer(config, world.run)
    ids = tokenizer.encode("two and two</think>\n\n4 \u00e9<|im_end|>", add_special_tokens=False)
    parts = speech.split(ids, True)
    assert (parts.reasoning, parts.content) == ("two and two", "4 \u00e9")
    assert speech.reasons and ids[-1] in speech.eos_ids
    assert max(ids) < speech.vocabulary and speech.context == 4096


def test_fast_decoding_is_the_same(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run")
    tokenizer = load_tokenizer(load_config(world.run.config), world.run)
    fast = _Fast(tokenizer)
    for text in ("a , b .", "\u4f60\u597d \U0001f600", "<think>x</think><|im_end|>", "  \n"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        for skip in (False, True):
            options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": False}
            assert fast.decode(ids, **options) == tokenizer.decode(ids, **options)
    assert fast.encode("ab", add_special_tokens=False) == tokenizer.encode(
        "ab", add_special_tokens=False
    )


def test_unknown_reasoning_family_is_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run")
    text = world.run.config.read_text()
    world.run.config.write_text(text.replace("[target]", '[target]\nreasoning = "qwen33"'))
    with pytest.raises(Refused, match=r"target.reasoning: .*qwen33"):
        load_speech(load_config(world.run.config), world.run)
