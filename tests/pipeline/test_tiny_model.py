"""The shipped model: small enough, described truly, and able to solve fresh instances."""

import hashlib
import json
import re

import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle_tui.pipeline.tiny import FAMILIES, MODEL_DIR
from eagle_tui.pipeline.tiny.card import HASHED_FILES
from eagle_tui.pipeline.tiny.corpus import load_tokenizer
from eagle_tui.pipeline.tiny.evaluate import Output, fresh, score, solve
from eagle_tui.pipeline.tiny.train_target import MAX_FILE_BYTES, architecture

PER_FAMILY = 8
LONGEST = 500  # characters of a thought; longer ones cost more time than they tell


@pytest.fixture(scope="module")
def outputs() -> list[Output]:
    model = AutoModelForCausalLM.from_pretrained(str(MODEL_DIR), dtype=torch.float32).eval()
    found = [instance for instance in fresh(40, seed=77) if len(instance.reasoning) <= LONGEST]
    chosen = [i for f in FAMILIES for i in [i for i in found if i.family == f][:PER_FAMILY]]
    return solve(model, load_tokenizer(MODEL_DIR), chosen, batch_size=16)


def test_the_weights_are_small_enough_to_ship() -> None:
    assert (MODEL_DIR / "model.safetensors").stat().st_size <= MAX_FILE_BYTES == 8_000_000


def test_the_shipped_configuration_is_the_one_that_the_script_trains() -> None:
    shipped = json.loads((MODEL_DIR / "config.json").read_text(encoding="utf-8"))
    wanted = architecture().to_dict()
    for name in (
        "model_type",
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
        "tie_word_embeddings",
        "eos_token_id",
        "pad_token_id",
    ):
        assert shipped[name] == wanted[name], name
    assert shipped["architectures"] == ["LlamaForCausalLM"]
    generation = json.loads((MODEL_DIR / "generation_config.json").read_text(encoding="utf-8"))
    assert generation["eos_token_id"] == shipped["eos_token_id"]


def test_the_card_names_the_files_that_are_there_and_their_measured_scores() -> None:
    card = (MODEL_DIR / "README.md").read_text(encoding="utf-8")
    for name in HASHED_FILES:
        digest = hashlib.sha256((MODEL_DIR / name).read_bytes()).hexdigest()
        assert f"| {name} | `{digest}` |" in card
    measured = json.loads((MODEL_DIR / "eval.json").read_text(encoding="utf-8"))["greedy"]
    assert [entry["family"] for entry in measured] == list(FAMILIES)
    for entry in measured:
        assert re.search(rf"\| {entry['family']} \| 300 \| {entry['accuracy']:.1%} \|", card)
        assert entry["accuracy"] >= 0.9


@pytest.mark.slow
def test_fresh_instances_are_solved(outputs: list[Output]) -> None:
    assert len(outputs) == PER_FAMILY * len(FAMILIES)
    failed = [(o.instance.messages[-1].content, o.text) for o in outputs if not o.solved]
    assert len(failed) <= 0.15 * len(outputs), failed


@pytest.mark.slow
def test_every_output_thinks_first_and_ends_its_turn(outputs: list[Output]) -> None:
    assert all(output.finished for output in outputs)
    assert all(output.text.count("</think>\n\n") == 1 for output in outputs)
    assert not any("<|im_" in output.text for output in outputs)


@pytest.mark.slow
def test_scores_count_what_the_outputs_hold(outputs: list[Output]) -> None:
    scores = score(outputs)
    assert [entry.family for entry in scores] == list(FAMILIES)
    assert sum(entry.solved for entry in scores) == sum(output.solved for output in outputs)
    assert all(entry.tokens_p50 <= entry.tokens_p95 <= entry.tokens_max for entry in scores)
