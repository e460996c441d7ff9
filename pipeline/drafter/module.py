"""The EAGLE-3 draft model in plain PyTorch, and its use token by token.

Names of parameters are those of the checkpoint (fc, midlayer.…, norm, lm_head, d2t, t2d). One row
is one position t of the text: it carries the target's states at t and the embedding of token t+1,
and predicts token t+2. Sequences are not batched: N rows are N positions, of one document in
decoding, of several laid end to end in training (`ttt.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import DrafterConfig
from .rope import frequencies, rotate
from .target_weights import TargetWeights


class RMSNorm(nn.Module):
    """weight * x / sqrt(mean(x²) + eps), in float32, the weight applied after casting back."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight.to(x.dtype) * wide.to(x.dtype)


class KVCache:
    """Keys and values of the rows so far, of one sequence: each [L, heads, d]."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def __len__(self) -> int:
        return 0 if self.keys is None else len(self.keys)

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append rows [n, heads, d]; gives all of them."""
        if self.keys is None or self.values is None:
            self.keys, self.values = keys, values
        else:
            self.keys = torch.cat((self.keys, keys))
            self.values = torch.cat((self.values, values))
        return self.keys, self.values

    def crop(self, length: int) -> None:
        """Forget all rows from `length` on."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[:length], self.values[:length]


class Attention(nn.Module):
    """Projections of the draft layer; queries, keys and values read embedding and state side by
    side."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        width, d = config.hidden_size, config.head_dim
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads,
            config.num_key_value_heads,
            d,
        )
        self.scale = d**-0.5
        self.q_proj = nn.Linear(2 * width, self.heads * d, bias=False)
        self.k_proj = nn.Linear(2 * width, self.kv_heads * d, bias=False)
        self.v_proj = nn.Linear(2 * width, self.kv_heads * d, bias=False)
        self.o_proj = nn.Linear(self.heads * d, width, bias=False)

    def weights(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The three projections as one matrix each for embedding and state: [O, H], [O, H]. Apart,
        so that the embedding's part is computed once for all training-time steps."""
        joined = torch.cat((self.q_proj.weight, self.k_proj.weight, self.v_proj.weight)).to(dtype)
        embedding, state = joined.chunk(2, dim=1)
        return embedding, state

    def queries(self, projected: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotated queries [N, heads, d] of their projection [N, heads*d]."""
        return rotate(projected.reshape(len(projected), self.heads, self.head_dim), cos, sin)

    def keys_values(self, projected: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated keys and values, each [N, kv_heads, d], of their projection [N, 2*kv_heads*d]."""
        both = projected.reshape(len(projected), 2, self.kv_heads, self.head_dim)
        return rotate(both[:, 0], cos, sin), both[:, 1]


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DraftLayer(nn.Module):
    """The one decoder layer."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        width, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config)
        self.mlp = MLP(width, config.intermediate_size)
        self.input_layernorm = RMSNorm(width, eps)
        self.hidden_norm = RMSNorm(width, eps)
        self.post_attention_layernorm = RMSNorm(width, eps)
        self._rest: Callable[[Tensor, Tensor], Tensor] = self._after

    def compile_rest(self) -> None:
        """Compile what follows the attention; pays on a GPU."""
        self._rest = torch.compile(self._after, dynamic=True)

    def after_attention(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """y [N, H] of the un-normed state [N, H] and the heads' output [N, heads, d]."""
        return self._rest(hidden, attended)

    def _after(self, hidden: Tensor, attended: Tensor) -> Tensor:
        residual = hidden + self.self_attn.o_proj(attended.flatten(-2))
        out: Tensor = residual + self.mlp(self.post_attention_layernorm(residual))
        return out


class Drafter(nn.Module):
    """The draft model. The embedding is the target's, frozen, and in no checkpoint."""

    inverse_frequency: Tensor
    embedding: Tensor
    d2t: Tensor
    t2d: Tensor

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        self.config = config
        width, vocabulary = config.hidden_size, config.vocab_size
        self.fc = nn.Linear(3 * width, width, bias=False)
        self.midlayer = DraftLayer(config)
        self.norm = RMSNorm(width, config.rms_norm_eps)
        self.lm_head = nn.Linear(width, config.draft_vocab_size, bias=False)
        inverse, self.rope_factor = frequencies(
            config.head_dim, config.rope_theta, config.rope_scaling, config.max_position_embeddings
        )
        self.register_buffer("inverse_frequency", inverse, persistent=False)
        self.register_buffer("embedding", torch.zeros(vocabulary, width), persistent=False)
        kept = torch.arange(config.draft_vocab_size)
        mapped = config.maps_vocabulary
        self.register_buffer("d2t", torch.zeros_like(kept), persistent=mapped)
        self.register_buffer("t2d", torch.arange(vocabulary) < len(kept), persistent=mapped)

    @classmethod
    def load(cls, directory: Path, target: TargetWeights) -> Drafter:
        """The drafter of an exported directory with the target's embedding, in float32, for
        evaluation. DrafterError when it cannot be used."""
        from .export import read_export

        config, tensors = read_export(directory)
        drafter = cls(config)
        drafter.load_state_dict(tensors)
        drafter.set_embedding(target.embedding())
        return drafter.eval().requires_grad_(False)

    def initialise(self, seed: int, head: Tensor | None = None, norm: Tensor | None = None) -> None:
        """Fresh weights that depend on the seed alone; head and final norm start as the target's,
        if given: `head` [Vd, H] its rows of the draft vocabulary, `norm` [H]."""
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    module.weight.normal_(0.0, 1 / math.sqrt(module.in_features), generator=random)
            # A small last projection of either branch: the layer begins near the identity.
            for last in (self.midlayer.self_attn.o_proj, self.midlayer.mlp.down_proj):
                last.weight.mul_(0.1)
            if head is not None:
                self.lm_head.weight.copy_(head)
            if norm is not None:
                self.norm.weight.copy_(norm)

    def set_embedding(self, table: Tensor, dtype: torch.dtype | None = None) -> None:
        """Take the target's embedding [V, H], in the type of the weights unless given."""
        self.embedding = table.to(self.fc.weight.device, dtype or self.fc.weight.dtype)

    def set_vocabulary(self, ids: Tensor) -> None:
        """Take the target ids int64 [Vd], ascending, that the drafter may propose."""
        kept = ids.to(self.d2t.device)
        self.d2t = kept - torch.arange(len(kept), device=kept.device)
        self.t2d = torch.zeros_like(self.t2d).index_fill_(0, kept, True)

    def to_target_ids(self, draft_ids: Tensor) -> Tensor:
        """The target's token ids of draft ids, any shape."""
        return draft_ids + self.d2t[draft_ids]

    def target_ids(self) -> Tensor:
        """int64 [Vd]: the target id of every draft id, ascending."""
        return self.to_target_ids(torch.arange(len(self.d2t), device=self.d2t.device))

    def rotation(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """cos and sin [N, 1, d/2] of positions [N]."""
        angle = positions.float()[:, None] * self.inverse_frequency
        cos, sin = angle.cos() * self.rope_factor, angle.sin() * self.rope_factor
        return cos[:, None].to(dtype), sin[:, None].to(dtype)

    def logits(self, y: Tensor) -> Tensor:
        """[N, Vd] of states y [N, H]."""
        out: Tensor = self.lm_head(self.norm(y))
        return out

    @torch.no_grad()
    def prefill(
        self, aux: Tensor, ids_next: Tensor, positions: Tensor, cache: KVCache
    ) -> tuple[Tensor, Tensor]:
        """Rows that carry target states.

        aux [n, 3*Ht] low|mid|high; ids_next [n]: the token *after* each row's position; positions
        [n] of the rows, which follow those in `cache`. Gives logits [n, Vd] and y [n, H], the state
        that `step` is fed with. The cache grows by n rows.
        """
        return self._rows(self.fc(aux.to(self.fc.weight.dtype)), ids_next, positions, cache)

    @torch.no_grad()
    def step(
        self, y: Tensor, ids: Tensor, positions: Tensor, cache: KVCache
    ) -> tuple[Tensor, Tensor]:
        """Rows fed back: y [m, H] of the last row or step, ids [m] the tokens drafted there,
        positions [m] = position of that row + 1. Gives logits [m, Vd] and the next y. The keys that
        it adds to the cache are provisional: crop them before the next `prefill`."""
        return self._rows(y, ids, positions, cache)

    def _rows(
        self, hidden: Tensor, ids: Tensor, positions: Tensor, cache: KVCache
    ) -> tuple[Tensor, Tensor]:
        layer, attention = self.midlayer, self.midlayer.self_attn
        embedded = layer.input_layernorm(self.embedding[ids].to(hidden.dtype))
        both = torch.cat((embedded, layer.hidden_norm(hidden)), dim=-1)
        rotation = self.rotation(positions, hidden.dtype)
        q = attention.queries(attention.q_proj(both), *rotation)
        joined = torch.cat((attention.k_proj(both), attention.v_proj(both)), dim=-1)
        k, v = attention.keys_values(joined, *rotation)
        before = len(cache)
        keys, values = cache.extend(k, v)
        visible = torch.ones(len(q), len(keys), dtype=torch.bool, device=q.device).tril(before)
        attended = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            keys.transpose(0, 1)[None],
            values.transpose(0, 1)[None],
            attn_mask=visible,
            scale=attention.scale,
            enable_gqa=True,
        )[0].transpose(0, 1)
        y = layer.after_attention(hidden, attended)
        return self.logits(y), y
