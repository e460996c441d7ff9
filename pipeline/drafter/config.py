"""What a drafter is made of: its config.json, and how it follows from the target's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .rope import target_rope

ARCHITECTURE: Final = "LlamaForCausalLMEagle3"
_HEAD_DIM: Final = 128
_GROUP_HEADS: Final = 8


class DrafterError(ValueError):
    """A drafter directory or a target cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class DrafterConfig:
    """Shape of an EAGLE-3 draft model of one decoder layer.

    `layers` are the three indices of target states it reads, as in transformers' hidden_states:
    index i is the **input of layer i**. Files hold i-1, the layer whose output it is.
    """

    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    draft_vocab_size: int
    layers: tuple[int, int, int]
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] | None = None
    dtype: str = "bfloat16"
    bos_token_id: int | None = None
    eos_token_id: Any = None
    extra: dict[str, Any] = field(default_factory=dict)
    """Further keys of config.json, written as they are (what the training says of itself)."""

    @property
    def maps_vocabulary(self) -> bool:
        """The drafter proposes a part of the target's tokens, so ids must be mapped."""
        return self.draft_vocab_size < self.vocab_size

    def to_json(self) -> dict[str, Any]:
        """config.json as SGLang 0.5.17 and 0.5.23 read it."""
        return {
            "architectures": [ARCHITECTURE],
            "model_type": "llama",
            "hidden_size": self.hidden_size,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": 1,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "vocab_size": self.vocab_size,
            "draft_vocab_size": self.draft_vocab_size,
            "tie_word_embeddings": False,
            "max_position_embeddings": self.max_position_embeddings,
            "rope_theta": self.rope_theta,
            "rope_scaling": self.rope_scaling,
            "attention_bias": False,
            "mlp_bias": False,
            "torch_dtype": self.dtype,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": self.eos_token_id,
            "eagle_config": {
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in self.layers],
            },
            **self.extra,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> DrafterConfig:
        """Read a config.json that `to_json` or a compatible trainer wrote. DrafterError names what
        is missing."""
        try:
            eagle = body["eagle_config"]
            low, mid, high = (int(i) + 1 for i in eagle["eagle_aux_hidden_state_layer_ids"])
            theta, scaling = target_rope(body)
            heads = int(body["num_attention_heads"])
            return cls(
                hidden_size=int(body["hidden_size"]),
                num_attention_heads=heads,
                num_key_value_heads=int(body["num_key_value_heads"]),
                head_dim=int(body.get("head_dim") or body["hidden_size"] // heads),
                intermediate_size=int(body["intermediate_size"]),
                vocab_size=int(body["vocab_size"]),
                draft_vocab_size=int(body["draft_vocab_size"]),
                layers=(low, mid, high),
                max_position_embeddings=int(body["max_position_embeddings"]),
                rms_norm_eps=float(body["rms_norm_eps"]),
                rope_theta=theta,
                rope_scaling=scaling,
                dtype=str(body.get("torch_dtype") or body.get("dtype") or "bfloat16"),
                bos_token_id=body.get("bos_token_id"),
                eos_token_id=body.get("eos_token_id"),
            )
        except KeyError as error:
            raise DrafterError(f"config.json of the drafter has no {error}") from None
        except (TypeError, ValueError) as error:
            raise DrafterError(f"config.json of the drafter is not understood: {error}") from None

    @classmethod
    def for_target(
        cls,
        target: dict[str, Any],
        layers: tuple[int, int, int],
        draft_vocab_size: int,
        *,
        intermediate_size: int | None = None,
        dtype: str = "bfloat16",
        vocab_size: int | None = None,
    ) -> DrafterConfig:
        """The drafter that fits a target with config.json `target`. `vocab_size` is the number of
        rows of the target's embedding where its config does not tell. DrafterError when the target
        says too little."""
        text = text_config(target)
        try:
            hidden, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
            vocabulary = int(vocab_size or text["vocab_size"])
            context = int(text["max_position_embeddings"])
        except (KeyError, TypeError) as error:
            raise DrafterError(f"config.json of the target has no {error}") from None
        head_dim = int(text.get("head_dim") or hidden // heads)
        kv_heads = min(int(text.get("num_key_value_heads") or heads), heads)
        if "kv_lora_rank" in text:
            # Latent attention has no keys and values of that shape; take what kernels like best.
            head_dim, heads, kv_heads = _plain_heads(hidden)
        theta, scaling = target_rope(text)
        inner = intermediate_size or _widest(text.get("intermediate_size"), 4 * hidden)
        return cls(
            hidden_size=hidden,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            intermediate_size=inner,
            vocab_size=vocabulary,
            draft_vocab_size=min(draft_vocab_size, vocabulary),
            layers=layers,
            max_position_embeddings=context,
            rms_norm_eps=float(text.get("rms_norm_eps") or 1e-6),
            rope_theta=theta,
            rope_scaling=scaling,
            dtype=dtype,
            bos_token_id=_first(target.get("bos_token_id", text.get("bos_token_id"))),
            eos_token_id=target.get("eos_token_id", text.get("eos_token_id")),
        )


def _widest(value: Any, default: int) -> int:
    """A size that config.json may give for each layer, or leave out."""
    sizes = [int(v) for v in (value if isinstance(value, list) else [value]) if v]
    return max(sizes, default=default)


def text_config(body: dict[str, Any]) -> dict[str, Any]:
    """The part of a config.json that describes the language model."""
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(body.get(key), dict):
            return dict(body[key])
    return body


def read_config(path: Path) -> dict[str, Any]:
    """A config.json as an object. DrafterError when it is missing or no JSON object."""
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DrafterError(f"{path}: there is no such file") from None
    except ValueError as error:
        raise DrafterError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(body, dict):
        raise DrafterError(f"{path}: holds no JSON object")
    return body


def _plain_heads(hidden: int) -> tuple[int, int, int]:
    """Size of a head, heads, key-value heads of an ordinary model of that width."""
    heads = max(1, hidden // _HEAD_DIM)
    return _HEAD_DIM, heads, _GROUP_HEADS if heads % _GROUP_HEADS == 0 else heads


def _first(value: Any) -> int | None:
    if isinstance(value, list):
        return int(value[0]) if value else None
    return None if value is None else int(value)
