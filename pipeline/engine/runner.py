"""The model: loads it, and runs batched prefill and decode over the rows of a `SlotCache`."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from . import attention
from .kvcache import SlotCache

#: Most padded prompt tokens in one forward pass: bounds the memory of a prefill and how long the
#: running requests wait for it.
PREFILL_TOKENS = 4096


class ModelError(Exception):
    """The model directory cannot be served; the message says why."""


@dataclass(frozen=True)
class ModelFacts:
    """What the rest of the engine has to know about a model."""

    path: str
    model_type: str
    architectures: tuple[str, ...]
    vocab_size: int
    context_len: int
    eos_ids: frozenset[int]
    dtype: str
    device: str
    parameters: int
    weight_bytes: int
    kv_bytes_per_token: int


def pick_device(wanted: str) -> torch.device:
    """``auto`` takes the first GPU if there is one."""
    if wanted == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(f"--device {wanted}: this machine has no usable GPU; use --device cpu.")
    try:
        return torch.device(wanted)
    except RuntimeError as error:
        raise ModelError(f"--device {wanted}: no such device; use cpu, cuda or cuda:N.") from error


def pick_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """``auto``: bfloat16 on a GPU; float32 on a CPU, where half precision is slower."""
    if wanted == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    names = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    return names[wanted]


def _eos_ids(directory: Path, config: Any, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a text: of the config, the generation config and the tokenizer."""
    found: set[int] = set()
    candidates: list[Any] = [getattr(config, "eos_token_id", None), tokenizer.eos_token_id]
    generation = directory / "generation_config.json"
    if generation.is_file():
        candidates.append(json.loads(generation.read_text("utf-8")).get("eos_token_id"))
    for value in candidates:
        if isinstance(value, int):
            found.add(value)
        elif isinstance(value, list):
            found.update(value)
    return frozenset(found)


def _check_attention(config: Any) -> None:
    """Refuse models whose layers attend to a window: rows are cached in full."""
    kinds = set(getattr(config, "layer_types", None) or ())
    windowed = getattr(config, "sliding_window", None) and getattr(
        config, "use_sliding_window", True
    )
    if kinds - {"full_attention"} or (not kinds and windowed):
        raise ModelError(
            f"{config.model_type} has layers that are not full attention; the embedded engine "
            "serves plain causal transformers only. Serve this model with SGLang."
        )


class ModelRunner:
    """Owns the weights and the cache; used by the model thread alone."""

    def __init__(
        self,
        directory: Path,
        *,
        device: str = "auto",
        dtype: str = "auto",
        context_length: int | None = None,
    ) -> None:
        if not (directory / "config.json").is_file():
            raise ModelError(f"{directory} has no config.json: --model takes a model directory.")
        self.device = pick_device(device)
        torch_dtype = pick_dtype(dtype, self.device)
        config = AutoConfig.from_pretrained(directory)
        _check_attention(config)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(directory)
        model: Any = AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch_dtype, attn_implementation=attention.NAME
        )
        self.model = model.to(self.device).eval()
        # transformers 5.24 renamed the argument that carries the cache.
        parameters = inspect.signature(self.model.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self.cache = SlotCache(config.num_hidden_layers, device=self.device, dtype=torch_dtype)

        longest = int(getattr(config, "max_position_embeddings", 0) or 0)
        context = context_length or longest
        if context <= 0:
            raise ModelError("The model does not say its context length: give --context-length.")
        if longest and context > longest:
            raise ModelError(
                f"--context-length {context}: the model has positions up to {longest}."
            )
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        element = torch.empty(0, dtype=torch_dtype).element_size()
        self.facts = ModelFacts(
            path=str(directory),
            model_type=config.model_type,
            architectures=tuple(config.architectures or ()),
            vocab_size=int(config.vocab_size),
            context_len=context,
            eos_ids=_eos_ids(directory, config, self.tokenizer),
            dtype=str(torch_dtype).removeprefix("torch."),
            device=str(self.device),
            parameters=sum(p.numel() for p in self.model.parameters()),
            weight_bytes=sum(p.numel() * p.element_size() for p in self.model.parameters()),
            kv_bytes_per_token=2 * config.num_hidden_layers * heads * head_dim * element,
        )

    def encode(self, text: str) -> list[int]:
        """Token ids of a text as it stands: no chat template, as SGLang's ``text``."""
        return list(self.tokenizer.encode(text))

    def _forward(self, ids: Tensor, positions: Tensor, mask: Tensor, keep: int | Tensor) -> Tensor:
        arguments = {self._cache_argument: self.cache}
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            use_cache=True,
            logits_to_keep=keep,
            slots=self.cache,
            **arguments,
        )
        logits: Tensor = output.logits
        return logits

    @torch.inference_mode()
    def prefill(self, first_row: int, prompts: list[list[int]]) -> Tensor:
        """Fill rows from ``first_row`` on; returns the last tokens' logits ``[n, v]``."""
        lengths = [len(prompt) for prompt in prompts]
        mask = self.cache.begin_prefill(first_row, lengths)
        span = max(lengths)
        ids = torch.zeros(len(prompts), span, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = torch.tensor(prompt)
        # Logits at the last token of every row only: at most one column per distinct length.
        ends = sorted({length - 1 for length in lengths})
        column = {end: i for i, end in enumerate(ends)}
        logits = self._forward(
            ids.to(self.device),
            torch.arange(span, device=self.device)[None],
            mask,
            torch.tensor(ends, device=self.device),
        )
        rows = torch.arange(len(prompts), device=self.device)
        columns = torch.tensor([column[length - 1] for length in lengths], device=self.device)
        return logits[rows, columns]

    @torch.inference_mode()
    def decode(self, tokens: list[int], positions: list[int]) -> Tensor:
        """One step: row i reads ``tokens[i]`` at ``positions[i]``; returns logits ``[n, v]``."""
        where, mask = self.cache.begin_decode(positions)
        ids = torch.tensor(tokens, device=self.device)
        return self._forward(ids[:, None], where[:, None], mask, 1)[:, -1]

    @torch.inference_mode()
    def move_row(self, source: int, target: int, length: int) -> None:
        """Row ``target`` takes over what row ``source`` holds."""
        self.cache.move_row(source, target, length)

    def release(self) -> None:
        """Give the cache's memory back; only when no row is live."""
        self.cache.release()
