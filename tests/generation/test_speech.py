"""The real tokenizer of the shipped model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eagle_tui.config import load_config
from eagle_tui.pipeline.generation import tokens
from eagle_tui.pipeline.generation.speech import load_speech
from eagle_tui.pipeline.targets import load_tokenizer, resolve_model
from eagle_tui.pipeline.worker import Refused
from eagle_tui.rundir.paths import RunDir

from .killing import ROOT
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


def test_a_plain_tokenizer_is_read_without_torch_and_speaks_the_same(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run")
    config = load_config(world.run.config)
    tokenizer = load_tokenizer(config, world.run)
    fast = tokens.load(config, world.run)
    assert isinstance(fast, tokens.Plain) and set(fast.versions) == {"tokenizers"}
    assert len(fast) == len(tokenizer)
    assert fast.chat_template == tokenizer.chat_template
    assert fast.eos_token_id == tokenizer.eos_token_id
    assert fast.get_added_vocab() == tokenizer.get_added_vocab()
    for text in ("a , b .", "\u4f60\u597d \U0001f600", "<think>x</think><|im_end|>", "  \n"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        for skip in (False, True):
            options = {"skip_special_tokens": skip, "clean_up_tokenization_spaces": False}
            assert fast.decode(ids, **options) == tokenizer.decode(ids, **options)
    assert fast.encode("ab", add_special_tokens=False) == tokenizer.encode(
        "ab", add_special_tokens=False
    )


def test_a_tokenizer_that_is_not_plain_is_left_to_transformers(tmp_path: Path) -> None:
    source = Path(
        resolve_model(load_config(make_world(tmp_path / "a").run.config), RunDir(tmp_path))
    )
    model = tmp_path / "model"
    shutil.copytree(source, model, ignore=shutil.ignore_patterns("*.safetensors"))
    settings = json.loads((model / "tokenizer_config.json").read_text())
    for change in (
        {"auto_map": {}},
        {"eos_token": "<none>"},
        {"added_tokens_decoder": {"9": {"content": "x"}}},
    ):
        (model / "tokenizer_config.json").write_text(json.dumps(settings | change))
        assert tokens._read_plain(model) is None, change
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    plain = tokens._read_plain(model)
    assert plain is not None and plain.chat_template
    (model / "tokenizer.json").write_text("{}")
    assert tokens._read_plain(model) is None


def test_the_worker_loads_no_torch() -> None:
    code = (
        "import sys, tempfile, pathlib;"
        "from tests.generation.world import make_world;"
        "from eagle_tui.config import load_config;"
        "from eagle_tui.pipeline.generate import load_speech;"
        "world = make_world(pathlib.Path(tempfile.mkdtemp()) / 'run');"
        "load_speech(load_config(world.run.config), world.run);"
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "set()"


def test_unknown_reasoning_family_is_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run")
    text = world.run.config.read_text()
    world.run.config.write_text(text.replace("[target]", '[target]\nreasoning = "qwen33"'))
    with pytest.raises(Refused, match=r"target.reasoning: .*qwen33"):
        load_speech(load_config(world.run.config), world.run)
