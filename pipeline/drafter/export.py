"""Drafter directories: what SGLang loads, and what speculators and vLLM load."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from eagle_tui.rundir import atomic

from .config import DrafterConfig, DrafterError, read_config

WEIGHTS: Final = "model.safetensors"
_LAYER: Final = "midlayer."
_ALIASES: Final = ("model.layers.0.", "layers.0.")
_FOLDED: Final = ("model.fc.", "model.norm.", "model.embed_tokens.", "model.midlayer.")
_DTYPES: Final = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}


def expected_names(config: DrafterConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that SGLang needs, and no more."""
    width, d = config.hidden_size, config.head_dim
    q, kv = config.num_attention_heads * d, config.num_key_value_heads * d
    inner = config.intermediate_size
    attention, mlp = f"{_LAYER}self_attn.", f"{_LAYER}mlp."
    names: dict[str, tuple[int, ...]] = {
        "fc.weight": (width, 3 * width),
        f"{attention}q_proj.weight": (q, 2 * width),
        f"{attention}k_proj.weight": (kv, 2 * width),
        f"{attention}v_proj.weight": (kv, 2 * width),
        f"{attention}o_proj.weight": (width, q),
        f"{mlp}gate_proj.weight": (inner, width),
        f"{mlp}up_proj.weight": (inner, width),
        f"{mlp}down_proj.weight": (width, inner),
        f"{_LAYER}input_layernorm.weight": (width,),
        f"{_LAYER}hidden_norm.weight": (width,),
        f"{_LAYER}post_attention_layernorm.weight": (width,),
        "norm.weight": (width,),
        "lm_head.weight": (config.draft_vocab_size, width),
    }
    if config.maps_vocabulary:
        names |= {"d2t": (config.draft_vocab_size,), "t2d": (config.vocab_size,)}
    return names


def canonical(name: str) -> str:
    """The name that we write for one of SGLang's aliases."""
    for alias in _ALIASES:
        if name.startswith(alias):
            return _LAYER + name.removeprefix(alias)
    return name.removeprefix("model.") if name.startswith(_FOLDED) else name


def read_export(directory: Path) -> tuple[DrafterConfig, dict[str, Tensor]]:
    """Config and tensors (canonical names, float32) of a directory in SGLang's form. The embedding,
    if there is one, is left out. DrafterError unless exactly the expected tensors are there."""
    config = DrafterConfig.from_json(read_config(directory / "config.json"))
    try:
        found = load_file(directory / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise DrafterError(f"{directory / WEIGHTS}: cannot be read ({error})") from error
    tensors = {canonical(name): tensor for name, tensor in found.items()}
    tensors.pop("embed_tokens.weight", None)
    wanted = expected_names(config)
    if not config.maps_vocabulary:
        tensors.pop("d2t", None)
        tensors.pop("t2d", None)
    if "d2t" in tensors and "t2d" not in tensors:
        kept = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
        tensors["t2d"] = torch.zeros(config.vocab_size, dtype=torch.bool).index_fill_(0, kept, True)
    wrong = [n for n, shape in wanted.items() if n in tensors and tuple(tensors[n].shape) != shape]
    for names, what in (
        (sorted(wanted.keys() - tensors.keys()), "has no"),
        (sorted(tensors.keys() - wanted.keys()), "holds the unknown"),
        (wrong, "has the wrong shape for"),
    ):
        if names:
            raise DrafterError(f"{directory / WEIGHTS}: {what} {', '.join(names)}")
    cast = {n: t.float() if t.is_floating_point() else t for n, t in tensors.items()}
    return config, cast


def write_export(directory: Path, config: DrafterConfig, state: dict[str, Tensor]) -> list[Path]:
    """Write SGLang's form; floats in the type of `config.dtype`. Gives the files."""
    tensors = _cast(state, config)
    return _write(directory, config.to_json(), tensors)


def write_speculators(
    directory: Path,
    config: DrafterConfig,
    state: dict[str, Tensor],
    embedding: Tensor,
    target: str,
    architectures: list[str],
) -> list[Path]:
    """Write the form of speculators (vLLM): nested config, layer ids as inputs of layers, embedding
    included. `target` and `architectures` say which the verifier is. Gives the files."""
    config = replace(config, extra={})
    tensors = {
        ("layers.0." + n.removeprefix(_LAYER) if n.startswith(_LAYER) else n): t
        for n, t in _cast(state, config).items()
    }
    tensors["embed_tokens.weight"] = embedding.to(_DTYPES[config.dtype])
    return _write(directory, speculators_config(config, target, architectures), tensors)


def speculators_config(
    config: DrafterConfig, target: str, architectures: list[str]
) -> dict[str, Any]:
    """config.json of speculators 0.9."""
    layer = config.to_json()
    for key in ("eagle_config", "draft_vocab_size", "architectures", "torch_dtype"):
        layer.pop(key)
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.9.0",
        "draft_vocab_size": config.draft_vocab_size,
        "norm_before_residual": False,
        "norm_before_fc": False,
        "norm_output": False,
        "eagle_aux_hidden_state_layer_ids": list(config.layers),
        "tie_word_embeddings": False,
        "torch_dtype": config.dtype,
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [
                {"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
            ],
            "verifier": {"name_or_path": target, "architectures": architectures},
        },
    }


def _cast(state: dict[str, Tensor], config: DrafterConfig) -> dict[str, Tensor]:
    dtype = _DTYPES[config.dtype]
    return {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor)
        .detach()
        .cpu()
        .contiguous()
        for name, tensor in state.items()
    }


def _write(directory: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> list[Path]:
    atomic.write_bytes(directory / WEIGHTS, save(tensors, metadata={"format": "pt"}))
    atomic.write_json(directory / "config.json", config)
    return [directory / WEIGHTS, directory / "config.json"]
