"""The target model's place, tokenizer, context and end tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.config import load_config
from eagle_tui.config.target import NoSuchModel, model_location
from eagle_tui.pipeline import targets
from eagle_tui.pipeline.reasoning import make_splitter
from eagle_tui.pipeline.template import Renderer
from eagle_tui.pipeline.worker import Refused
from eagle_tui.rundir.paths import RunDir

ONE = {"a": 'source = "a.jsonl"'}


def load(root: Path) -> tuple[Any, RunDir]:
    return load_config(root / "run.toml"), RunDir.at(root)


def test_resolve(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    assert model_location("m", tmp_path) == str((tmp_path / "m").resolve())
    assert model_location("org/name", tmp_path) == "org/name"
    assert model_location("builtin:tiny", tmp_path).endswith("tiny/model")
    with pytest.raises(NoSuchModel, match="there is no directory"):
        model_location("./gone", tmp_path)
    with pytest.raises(NoSuchModel, match="builtin:tiny"):
        model_location("builtin:huge", tmp_path)


def test_a_target_that_is_not_there_is_refused(run_dir: Any) -> None:
    config, run = load(run_dir(ONE))
    gone = config.target.model_copy(update={"model": "./gone"})
    with pytest.raises(Refused, match="there is no directory"):
        targets.load_tokenizer(config.model_copy(update={"target": gone}), run)


def test_tokenizer_and_template_override(run_dir: Any) -> None:
    root = run_dir(ONE, target='chat_template = "own.jinja"')
    (root / "own.jinja").write_text("{{ messages[0].content }}!")
    tokenizer = targets.load_tokenizer(*load(root))
    assert tokenizer.chat_template == "{{ messages[0].content }}!"
    (root / "own.jinja").unlink()
    with pytest.raises(Refused, match=r"own\.jinja: cannot be read"):
        targets.load_tokenizer(*load(root))


def test_no_template_and_no_tokenizer_are_said(run_dir: Any, tmp_path: Path) -> None:
    root = run_dir(ONE, model={"template": None})
    with pytest.raises(Refused, match="has no chat template"):
        targets.load_tokenizer(*load(root))
    for file in (tmp_path / "model").iterdir():
        file.unlink()
    with pytest.raises(Refused, match="no tokenizer"):
        targets.load_tokenizer(*load(root))


@pytest.mark.parametrize(
    ("name", "text"), [("config.json", "[]"), ("tokenizer.json", "{"), ("tokenizer.json", "[]")]
)
def test_a_broken_model_directory_is_told(run_dir: Any, name: str, text: str) -> None:
    root = run_dir({"a": 'source = "a.jsonl"'})
    (root.parent / "model" / name).write_text(text)
    with pytest.raises(Refused, match="no tokenizer"):
        targets.load_tokenizer(*load(root))


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"max_position_embeddings": 512, "seq_length": 128}, 128),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 8192),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
        ({"rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 1024}}, 4096),
        ({"text_config": {"max_position_embeddings": 777}}, 777),
    ],
)
def test_context_length(config: dict[str, Any], length: int, run_dir: Any) -> None:
    root = run_dir(ONE, model={"config": config})
    assert targets.context_length(*load(root)) == length


def test_context_length_of_run_toml_wins_and_unknown_is_refused(run_dir: Any) -> None:
    root = run_dir(ONE, model={"config": {"max_position_embeddings": None}})
    with pytest.raises(Refused, match=r"Set target\.context_length"):
        targets.context_length(*load(root))
    root = run_dir(ONE, target="context_length = 99")
    assert targets.context_length(*load(root)) == 99


def test_eos_ids_are_joined(run_dir: Any, tmp_path: Path) -> None:
    root = run_dir(ONE, model={"config": {"eos_token_id": 7}})
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [8, 9]}))
    tokenizer = targets.load_tokenizer(*load(root))
    assert targets.eos_ids(*load(root)) == {7, 8, 9, tokenizer.eos_token_id}


def test_the_model_that_comes_with_us(run_dir: Any) -> None:
    root = run_dir(ONE)
    text = (root / "run.toml").read_text()
    own = text.splitlines()[1]
    (root / "run.toml").write_text(text.replace(own, 'model = "builtin:tiny"'))
    tokenizer = targets.load_tokenizer(*load(root))
    eos = targets.eos_ids(*load(root))
    assert tokenizer.eos_token_id in eos
    assert targets.context_length(*load(root)) >= 1024
    splitter = make_splitter("auto", tokenizer, eos)
    renderer = Renderer(tokenizer, eos)
    asked = [{"role": "user", "content": "What is <think>?"}]
    (prompt,) = renderer.encode([renderer.text(asked, generation_prompt=True)])
    assert splitter.opens_in_prompt(prompt)
    answer = {"role": "assistant", "content": "four", "reasoning_content": "two and two"}
    native = renderer.native([*asked, answer])
    ((start, end),) = native.spans
    assert start == len(prompt)
    found = splitter.split(native.ids[start:end], True)
    assert (found.reasoning, found.content, found.closed) == ("two and two", "four", True)
    assert found.end_id == renderer.end_of_turn() == tokenizer.eos_token_id
