"""Rotations, draft vocabulary, figures: the parts without a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from eagle_tui.pipeline.drafter.config import DrafterConfig
from eagle_tui.pipeline.drafter.metrics import Tally, spans, tally_row, walk
from eagle_tui.pipeline.drafter.rope import frequencies, target_rope
from eagle_tui.pipeline.drafter.vocabulary import choose, count_tokens

LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 256,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}


@pytest.mark.parametrize(
    "scaling",
    [None, {"rope_type": "linear", "factor": 2.0}, LLAMA3, YARN, {**YARN, "truncate": False}],
)
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
def test_rotations_are_those_of_transformers(scaling: dict[str, Any] | None, theta: float) -> None:
    parameters = {"rope_theta": theta, **(scaling or {"rope_type": "default"})}
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        max_position_embeddings=2048,
        rope_parameters=parameters,
    )
    reference = LlamaRotaryEmbedding(config)
    found, factor = frequencies(32, theta, scaling, 2048)
    torch.testing.assert_close(found, reference.inv_freq, rtol=1e-6, atol=0)
    assert factor == pytest.approx(reference.attention_scaling)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"rope_theta": 5e5}, (5e5, None)),
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, (5e5, None)),
        ({}, (1e4, None)),
        ({"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 2.0}},
         (1e6, {"rope_type": "linear", "factor": 2.0})),
        # Engines read these keys of YaRN differently; without them they agree.
        ({"rope_theta": 5e4, "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
         (5e4, YARN)),
        # Cannot be served the same everywhere: plain rotations of the same base.
        ({"rope_theta": 1e4, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, (1e4, None)),
        ({"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 3]}},
         (1e6, None)),
        # One for each type of layer: that of the layers that see everything.
        ({"rope_parameters": {
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"},
            "full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0}}},
         (1e6, {"rope_type": "linear", "factor": 8.0})),
    ],
)  # fmt: skip
def test_rope_of_a_target(config: dict[str, Any], expected: tuple[float, Any]) -> None:
    assert target_rope(config) == expected


def test_a_drafter_for_latent_attention_has_plain_heads() -> None:
    target = {
        **{"hidden_size": 7168, "num_attention_heads": 64, "num_key_value_heads": 64},
        **{"kv_lora_rank": 512, "vocab_size": 163840, "max_position_embeddings": 262144},
        **{"intermediate_size": 18432, "rope_theta": 50000.0, "num_hidden_layers": 61},
    }
    made = DrafterConfig.for_target({"text_config": target}, (2, 30, 58), 32000)
    assert (made.num_attention_heads, made.num_key_value_heads, made.head_dim) == (56, 8, 128)
    ids = made.to_json()["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert ids == [1, 29, 57]
    assert DrafterConfig.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("more", "inner"),
    [({}, 256), ({"intermediate_size": None}, 256), ({"intermediate_size": [64, 96]}, 96)],
)
def test_a_target_may_leave_sizes_out_or_give_them_by_layer(
    more: dict[str, Any], inner: int
) -> None:
    target = {
        **{"hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100, "rms_norm_eps": None},
        **{"max_position_embeddings": 128, "num_hidden_layers": 8, **more},
    }
    made = DrafterConfig.for_target(target, (2, 4, 5), 50)
    assert made.intermediate_size == inner and made.rms_norm_eps == 1e-6


def test_the_vocabulary_is_by_frequency_then_by_id() -> None:
    counts = np.array([5, 0, 7, 7, 1, 0, 1, 9], np.int64)
    assert choose(counts, 4).ids.tolist() == [0, 2, 3, 7]
    assert choose(counts, 5).ids.tolist() == [0, 2, 3, 4, 7]  # 4 and 6 tie: the smaller id
    assert choose(counts, 7).ids.tolist() == [0, 1, 2, 3, 4, 6, 7]  # filled with unused ids
    assert choose(counts, 4).coverage == pytest.approx(28 / 30)
    assert choose(counts, 4, always=[5]).ids.tolist() == [2, 3, 5, 7]
    assert choose(counts, None).whole and choose(counts, 8).whole and choose(counts, 99).whole
    with pytest.raises(ValueError, match="cannot hold 3 end tokens"):
        choose(counts, 2, always=[1, 2, 3])


def test_only_supervised_tokens_are_counted() -> None:
    rows = [(np.array([1, 2, 2, 3], np.int32), np.array([0, 1, 1, 0], np.uint8))]
    assert count_tokens(rows, 5).tolist() == [0, 0, 2, 0, 0]
    with pytest.raises(ValueError, match="token id 9 is outside"):
        count_tokens([(np.array([9], np.int32), np.array([1], np.uint8))], 5)


@pytest.mark.parametrize(
    ("leading", "first", "last", "expected"),
    [
        ([0] * 10, 3, 9, (6, 6)),  # nothing right: one bonus token a round
        ([3] * 10, 3, 9, (6, 2)),  # 4 tokens, then 2 until the end
        ([3] * 10, 9, 9, (0, 0)),  # one token: it came with the prompt
        ([0, 0, 0, 2, 9, 9, 0, 1, 9, 9], 3, 9, (6, 3)),  # 3→6, 6→7, 7→9
    ],
)
def test_walk(leading: list[int], first: int, last: int, expected: tuple[int, int]) -> None:
    assert walk(np.array(leading), first, last) == expected


def test_spans_are_runs() -> None:
    assert list(spans(np.array([3, 4, 5, 9, 12, 13]))) == [(3, 5), (9, 9), (12, 13)]
    assert list(spans(np.array([], np.int64))) == []


def test_joint_needs_every_step_of_the_same_anchor() -> None:
    """Hits per step stand at the target's position; an anchor's are on a diagonal."""
    positions = np.arange(2, 6)
    hits = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], bool)
    valid = np.ones((2, 4), bool)
    tally = tally_row(hits, np.full((2, 4), 0.5, np.float32), valid, positions, 6, 2)
    assert tally.hits.tolist() == [3, 3]
    # Anchors with newest token 2, 3, 5 hit step 0; step 1 of them is judged one further on.
    assert tally.joint.tolist() == [3, 2]
    assert tally.anchors.tolist() == [4, 3]
    # newest 2: both right, 3 tokens to 5, the last.
    assert (tally.tokens, tally.rounds) == (3, 1)
    assert tally.to_json()["accept"] == 3.0
    assert tally.to_json()["alpha"] == [0.5, 0.5]


def test_tallies_add_up() -> None:
    one = tally_row(
        np.ones((2, 3), bool), np.ones((2, 3), np.float32), np.ones((2, 3), bool),
        np.arange(1, 4), 4, 2,
    )  # fmt: skip
    both = Tally(2)
    both.add(one)
    both.add(one)
    assert both.flat().tolist() == (2 * one.flat()).tolist()
    assert both.accept == one.accept
    assert Tally(2).accept is None and Tally(2).to_json()["acc"] == [None, None]
