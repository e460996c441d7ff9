"""The few tensors of the target that a drafter needs, read without loading the model: embedding,
language-model head, final norm. Handles one file, sharded checkpoints and tied embeddings."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open
from torch import Tensor

from .config import DrafterError, read_config, text_config

_EMBEDDING: Final = (
    "embed_tokens.weight",
    "wte.weight",
    "word_embeddings.weight",
    "embed_in.weight",
)
_HEAD: Final = ("lm_head.weight", "embed_out.weight", "output_layer.weight")
_NORM: Final = (
    "model.norm.weight",
    "language_model.norm.weight",
    "final_layernorm.weight",
    "ln_f.weight",
    "final_layer_norm.weight",
    "final_norm.weight",
)
_NOT_THE_MODEL: Final = ("visual", "vision", "audio", "mtp", "layers.", "draft")
"""Parts of names that belong to towers and to prediction layers, not to the language model."""
_ONE_PLUS: Final = re.compile(
    r"(?:gemma|gemma2|gemma3|recurrent_gemma|vaultgemma|qwen3_next|qwen3_5|qwen3_5_moe"
    r"|minimax_m3_vl|muse_glimmer|muse_spark|step3p[57])(?:_text)?"
)
"""Model types whose norms multiply by one plus their weight, as their classes in transformers do.
Gemma 3n and Gemma 4 multiply by the weight itself."""
_INDEX: Final = "model.safetensors.index.json"
_PATTERNS: Final = ["*.safetensors", "*.json"]


@dataclass(frozen=True)
class TargetWeights:
    """A target's directory and where its tensors lie."""

    path: Path
    config: dict[str, Any]
    """The whole config.json."""
    _files: dict[str, Path]

    @classmethod
    def open(cls, place: str | Path) -> TargetWeights:
        """A directory, or a hub id whose files are fetched unless they are there. DrafterError when
        there are no safetensors files."""
        path = Path(place)
        if not path.is_dir():
            path = _from_hub(str(place))
        config = read_config(path / "config.json")
        return cls(path, config, _tensor_files(path))

    @property
    def text(self) -> dict[str, Any]:
        """The part of config.json that describes the language model."""
        return text_config(self.config)

    @property
    def hidden_size(self) -> int:
        """Ht."""
        return int(self.text["hidden_size"])

    @property
    def num_layers(self) -> int:
        """N."""
        return int(self.text["num_hidden_layers"])

    @property
    def vocab_size(self) -> int:
        """V: tokens of config.json, which may be fewer than the rows of the embedding."""
        return int(self.text["vocab_size"])

    def embedding(self) -> Tensor:
        """[V, Ht] in the stored type."""
        return self._matrix("the embedding", _EMBEDDING)

    def head(self) -> Tensor:
        """[V, Ht] in the stored type: the language-model head, or the embedding where they are
        tied."""
        if self._name(_HEAD) is None:
            return self.embedding()
        return self._matrix("the language-model head", _HEAD)

    def final_norm(self) -> Tensor:
        """[Ht]: weight of the norm before the head. One is added where the model's norms multiply
        by one plus their weight."""
        weight = self._read("the final norm", _NORM)
        return weight + 1 if _ONE_PLUS.fullmatch(str(self.text.get("model_type"))) else weight

    def eos_ids(self) -> frozenset[int]:
        """Every id that ends an answer, of config.json, generation_config.json and tokenizer."""
        found = [self.config.get("eos_token_id"), self.text.get("eos_token_id")]
        generation = _json(self.path / "generation_config.json")
        found.append(generation.get("eos_token_id"))
        found.append(_token_id(self.path, "eos_token"))
        ids: set[int] = set()
        for value in found:
            ids.update(_ids(value if isinstance(value, list) else [value]))
        return frozenset(i for i in ids if i < self.vocab_size)

    def logits_of(self) -> tuple[float, float | None]:
        """Factor on the head's output, and the bound of the tanh that caps it, if any."""
        factor = float(self.text.get("logit_scale") or 1.0)
        factor /= float(self.text.get("logits_scaling") or 1.0)
        cap = self.text.get("final_logit_softcapping")
        return factor, None if cap is None else float(cap)

    def _matrix(self, what: str, names: tuple[str, ...]) -> Tensor:
        tensor = self._read(what, names)
        sound = tensor.ndim == 2 and tensor.shape[1] == self.hidden_size
        if not sound or tensor.shape[0] < self.vocab_size or not tensor.is_floating_point():
            raise DrafterError(
                f"{self.path}: {what} has shape {list(tensor.shape)} and type {tensor.dtype}; "
                f"expected [{self.vocab_size}, {self.hidden_size}] of floating point"
            )
        return tensor[: self.vocab_size]

    def _name(self, names: tuple[str, ...]) -> str | None:
        for wanted in names:
            found = [
                name
                for name in self._files
                if (name == wanted or name.endswith(f".{wanted}"))
                and not any(part in name for part in _NOT_THE_MODEL)
            ]
            if found:
                return min(found, key=len)
        return None

    def _read(self, what: str, names: tuple[str, ...]) -> Tensor:
        name = self._name(names)
        if name is None:
            raise DrafterError(
                f"{self.path}: {what} is not in the checkpoint; looked for names that end in "
                f"{', '.join(names)}"
            )
        try:
            with safe_open(self._files[name], framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise DrafterError(f"{self._files[name]}: cannot be read ({error})") from error
        return tensor


def _from_hub(place: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(place, allow_patterns=_PATTERNS))
    except (OSError, ValueError) as error:
        raise DrafterError(
            f"target.model {place!r} is no directory, and cannot be fetched ({error})"
        ) from error


def _tensor_files(path: Path) -> dict[str, Path]:
    index = _json(path / _INDEX).get("weight_map")
    if isinstance(index, dict):
        return {str(name): path / str(file) for name, file in index.items()}
    found: dict[str, Path] = {}
    for file in sorted(path.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as opened:
                found.update(dict.fromkeys(opened.keys(), file))
        except (OSError, SafetensorError) as error:
            raise DrafterError(f"{file}: cannot be read ({error})") from error
    if not found:
        raise DrafterError(
            f"{path}: holds no safetensors files. Convert the checkpoint first (save_pretrained)."
        )
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


def _token_id(path: Path, key: str) -> int | None:
    """Id of a special token that tokenizer_config.json names by its text."""
    settings = _json(path / "tokenizer_config.json")
    token = settings.get(key)
    text = token.get("content") if isinstance(token, dict) else token
    for entry in _json(path / "tokenizer.json").get("added_tokens") or []:
        if isinstance(entry, dict) and text is not None and entry.get("content") == text:
            return int(entry["id"])
    return None


def _ids(values: list[Any]) -> list[int]:
    return [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0]
