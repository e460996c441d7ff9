"""The target's tensors are found in whatever way a checkpoint holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from eagle_tui.pipeline.drafter.config import DrafterError
from eagle_tui.pipeline.drafter.target_weights import TargetWeights
from eagle_tui.rundir import atomic

V, H = 10, 4


def tensors(prefix: str = "model.", **more: Tensor) -> dict[str, Tensor]:
    return {
        f"{prefix}embed_tokens.weight": torch.arange(V * H).float().reshape(V, H),
        f"{prefix}norm.weight": torch.full((H,), 0.5),
        f"{prefix}layers.0.input_layernorm.weight": torch.zeros(H),
        **more,
    }


def make(path: Path, found: dict[str, Tensor], **config: Any) -> TargetWeights:
    body = {"hidden_size": H, "vocab_size": V, "num_hidden_layers": 9, **config}
    atomic.write_json(path / "config.json", body)
    save_file(found, path / "model.safetensors")
    return TargetWeights.open(path)


def test_one_file_with_its_own_head(tmp_path: Path) -> None:
    head = torch.ones(V, H)
    target = make(tmp_path, tensors(**{"lm_head.weight": head}))
    assert torch.equal(target.head(), head) and not torch.equal(target.embedding(), head)
    assert target.final_norm().tolist() == [0.5] * H


def test_tied_embeddings(tmp_path: Path) -> None:
    target = make(tmp_path, tensors())
    assert torch.equal(target.head(), target.embedding())


def test_a_checkpoint_in_parts(tmp_path: Path) -> None:
    whole = tensors(**{"lm_head.weight": torch.ones(V, H)})
    names = sorted(whole)
    for part, chosen in enumerate((names[:2], names[2:])):
        save_file({n: whole[n] for n in chosen}, tmp_path / f"model-{part}.safetensors")
    weight_map = {n: f"model-{int(n not in names[:2])}.safetensors" for n in names}
    atomic.write_json(tmp_path / "model.safetensors.index.json", {"weight_map": weight_map})
    body = {"hidden_size": H, "vocab_size": V, "num_hidden_layers": 9}
    atomic.write_json(tmp_path / "config.json", body)
    target = TargetWeights.open(tmp_path)
    for found, name in (
        (target.embedding(), "model.embed_tokens.weight"),
        (target.head(), "lm_head.weight"),
        (target.final_norm(), "model.norm.weight"),
    ):
        assert torch.equal(found, whole[name])


def test_a_language_model_among_towers(tmp_path: Path) -> None:
    found = {
        **tensors("language_model.model."),
        "language_model.lm_head.weight": torch.ones(V, H),
        "vision_tower.embed_tokens.weight": torch.zeros(3, 3),
        "mtp.layers.0.embed_tokens.weight": torch.zeros(3, 3),
    }
    text = {"hidden_size": H, "vocab_size": V, "num_hidden_layers": 9}
    target = make(tmp_path, found, text_config=text, hidden_size=99)
    assert target.hidden_size == H
    assert target.embedding()[1, 1] == 5 and torch.equal(target.head(), torch.ones(V, H))


def test_rows_beyond_the_vocabulary_are_cut(tmp_path: Path) -> None:
    assert make(tmp_path, tensors(), vocab_size=7).head().shape == (7, H)


SMALL = {
    **{"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
}
LINEAR = {f"linear_{what}_head_dim": 8 for what in ("key", "value")}
HEADS = {"linear_num_value_heads": 4, "linear_num_key_heads": 2}
EXPERTS = {
    **{"num_experts": 4, "num_experts_per_tok": 2},
    **{"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
}


@pytest.mark.parametrize(
    ("config", "more"),
    [
        ("LlamaConfig", {}),
        ("Gemma2Config", {}),
        ("Gemma3TextConfig", {}),
        ("Gemma4TextConfig", {}),
        ("RecurrentGemmaConfig", {"lru_width": 32}),
        ("VaultGemmaConfig", {}),
        ("Qwen3Config", {}),
        ("Qwen3NextConfig", {**LINEAR, **HEADS, **EXPERTS}),
        ("Qwen3_5TextConfig", {**LINEAR, **HEADS}),
    ],
)
def test_the_final_norm_is_what_the_model_multiplies_by(
    tmp_path: Path, config: str, more: dict[str, int]
) -> None:
    if not hasattr(transformers, config):
        pytest.skip(f"this transformers has no {config}")
    made = getattr(transformers, config)(**SMALL, **more)
    model: Any = transformers.AutoModelForCausalLM.from_config(made).float()
    norm = getattr(model.model, "norm", None) or model.model.final_norm
    torch.nn.init.uniform_(norm.weight, 0.2, 0.6)
    model.save_pretrained(tmp_path)
    rows = torch.randn(3, 32)
    scaled = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-6)
    found = TargetWeights.open(tmp_path).final_norm()
    assert torch.allclose(norm(rows), found * scaled, atol=1e-4)


def test_logits_may_be_scaled_and_capped(tmp_path: Path) -> None:
    assert make(tmp_path, tensors()).logits_of() == (1.0, None)
    scaled = make(tmp_path, tensors(), logits_scaling=8.0, final_logit_softcapping=30.0)
    assert scaled.logits_of() == (0.125, 30.0)


def test_end_tokens_are_taken_from_everywhere(tmp_path: Path) -> None:
    atomic.write_json(tmp_path / "generation_config.json", {"eos_token_id": [3, 4, 99]})
    atomic.write_json(tmp_path / "tokenizer_config.json", {"eos_token": {"content": "<end>"}})
    added = {"added_tokens": [{"id": 6, "content": "<end>"}, {"id": 7, "content": "<x>"}]}
    atomic.write_json(tmp_path / "tokenizer.json", added)
    assert make(tmp_path, tensors(), eos_token_id=2).eos_ids() == {2, 3, 4, 6}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DrafterError, match=r"config\.json: there is no such file"):
        TargetWeights.open(tmp_path)
    body = {"hidden_size": H, "vocab_size": V, "num_hidden_layers": 9}
    atomic.write_json(tmp_path / "config.json", body)
    with pytest.raises(DrafterError, match="holds no safetensors files"):
        TargetWeights.open(tmp_path)
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    target = TargetWeights.open(tmp_path)
    with pytest.raises(DrafterError, match="the embedding is not in the checkpoint"):
        target.head()
    wrong = make(tmp_path, {"model.embed_tokens.weight": torch.ones(V, H + 1)})
    with pytest.raises(DrafterError, match=r"shape \[10, 5\]"):
        wrong.embedding()
