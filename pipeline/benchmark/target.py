"""The target with a key-value cache that can be cropped, and the states that a drafter reads."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from ..extraction.target import capturing, find_layers, text_config
from ..worker import Refused


class CachedTarget:
    """A transformers causal model that decodes one sequence.

    Capturing costs nothing, so decoding with and without the drafter runs the same code.
    """

    def __init__(self, model: Any, layers: tuple[int, int, int]) -> None:
        self.model = model
        self.layers = layers
        self.device = model.get_input_embeddings().weight.device
        self._blocks = find_layers(
            model.base_model, int(text_config(model.config).num_hidden_layers)
        )
        # transformers renamed it; the old name is going away.
        known = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in known else "past_key_values"
        self._cache: Any = None
        self._length = 0

    def __len__(self) -> int:
        """Tokens in the cache."""
        return self._length

    def begin(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """Forget everything and read a prompt of P tokens: logits [V] after its last token and
        states [P, 3*Ht]."""
        from transformers import DynamicCache

        self._cache = DynamicCache(config=self.model.config)
        self._length = 0
        logits, aux = self._forward(ids, keep=1)
        return logits[-1], aux

    def extend(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """Read n tokens more: logits [n, V] after each, in float32, and states [n, 3*Ht]."""
        return self._forward(ids, keep=0)

    def crop(self, length: int) -> None:
        """Forget all tokens from `length` on. Refused for targets whose state cannot go back."""
        if length == self._length:
            return
        try:
            # By how much: a length is taken by older versions of transformers only.
            self._cache.crop(length - self._length)
        except (AttributeError, NotImplementedError, ValueError) as error:
            raise Refused(
                f"the state of {type(self.model).__name__} cannot be taken back by some tokens "
                f'({error}); set bench.engine = "sglang" in run.toml.'
            ) from error
        self._length = length

    @torch.inference_mode()
    def _forward(self, ids: list[int], *, keep: int) -> tuple[Tensor, Tensor]:
        tokens = torch.tensor([ids], device=self.device)
        with capturing(self._blocks, self.layers) as taken:
            out = self.model(
                input_ids=tokens,
                use_cache=True,
                logits_to_keep=keep,
                **{self._cache_name: self._cache},
            )
        self._length += len(ids)
        logits: Tensor = out.logits[0].float()
        aux = [taken[index][0].to(logits.device) for index in self.layers]
        return logits, torch.cat(aux, dim=1)
