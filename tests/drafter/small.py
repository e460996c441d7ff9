"""A tiny drafter with random weights, and the training-time test written out the long way."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from eagle_tui.pipeline.drafter.attention import Documents
from eagle_tui.pipeline.drafter.config import DrafterConfig
from eagle_tui.pipeline.drafter.module import Drafter
from eagle_tui.pipeline.drafter.rope import rotate
from eagle_tui.pipeline.drafter.ttt import Rows

WIDTH, VOCABULARY, DRAFT = 32, 64, 48
KEPT = torch.arange(VOCABULARY)[torch.arange(VOCABULARY) % 4 != 3]


def config(**changes: object) -> DrafterConfig:
    values: dict[str, object] = {
        "hidden_size": WIDTH,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 40,
        "vocab_size": VOCABULARY,
        "draft_vocab_size": DRAFT,
        "layers": (2, 4, 5),
        "max_position_embeddings": 512,
        "dtype": "float32",
        **changes,
    }
    return DrafterConfig(**values)  # type: ignore[arg-type]


def drafter(seed: int = 0, **changes: object) -> Drafter:
    """Random weights everywhere, norms included, so that none can be left out unseen."""
    made = Drafter(config(**changes))
    made.initialise(seed)
    random = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=random) * 0.2)
        for last in (made.midlayer.self_attn.o_proj, made.midlayer.mlp.down_proj):
            last.weight.mul_(10)
    made.set_embedding(torch.randn(VOCABULARY, WIDTH, generator=random))
    if made.config.maps_vocabulary:
        made.set_vocabulary(KEPT)
    return made


def rows(lengths: list[int], seed: int = 0) -> Rows:
    """Documents of random tokens and states."""
    random = torch.Generator().manual_seed(seed)
    total = sum(lengths)
    return Rows(
        ids=torch.randint(VOCABULARY, (total,), generator=random),
        aux=torch.randn(total, 3 * WIDTH, generator=random),
        positions=torch.cat([torch.arange(n) for n in lengths]),
        docs=Documents.of(lengths),
    )


def shifted(rows: Tensor, by: int) -> Tensor:
    """Row t becomes row t+by; zeros at the end."""
    return torch.cat((rows[by:], rows.new_zeros(min(by, len(rows)), *rows.shape[1:])))


def dense_states(
    model: Drafter,
    given: Rows,
    steps: int,
    *,
    offset: int = 0,
    diagonal: bool = True,
    backend: str = "mask",
) -> Tensor:
    """[steps, N, H]: all keys in one list, one boolean mask over N*(j+1) of them."""
    n = len(given.ids)
    document = torch.bucketize(torch.arange(n), given.docs.starts[1:].long(), right=True)
    causal = torch.ones(n, n).tril().bool() & (document[:, None] == document[None])
    layer, attention = model.midlayer, model.midlayer.self_attn
    hidden, keys, values, masks, out = model.fc(given.aux), [], [], [], []
    for step in range(steps):
        embedded = model.embedding[shifted(given.ids, 1 + step)]
        both = torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(hidden)), -1)
        cos, sin = model.rotation(given.positions + step + offset, hidden.dtype)
        q = rotate(attention.q_proj(both).reshape(n, 4, 8), cos, sin)
        keys.append(rotate(attention.k_proj(both).reshape(n, 2, 8), cos, sin))
        values.append(attention.v_proj(both).reshape(n, 2, 8))
        masks.append(causal if step == 0 or not diagonal else torch.eye(n).bool())
        k, v = (torch.cat(t).repeat_interleave(2, 1).transpose(0, 1) for t in (keys, values))
        mask = torch.cat(masks, 1)
        if backend == "mask":
            found = F.scaled_dot_product_attention(q.transpose(0, 1), k, v, attn_mask=mask)
        else:
            found = _flex(q.transpose(0, 1), k, v, n, document)
        hidden = layer.after_attention(hidden, found.transpose(0, 1))
        out.append(hidden)
    return torch.stack(out)


def _flex(q: Tensor, k: Tensor, v: Tensor, n: int, document: Tensor) -> Tensor:
    """Option 2: flex_attention with a mask function over concatenated keys."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def visible(_b: Tensor, _h: Tensor, at: Tensor, key: Tensor) -> Tensor:
        row = key % n
        block = (key < n) & (at >= key) & (document[at] == document[row])
        return block | ((key >= n) & (row == at))

    mask = create_block_mask(visible, None, None, n, k.shape[1], device="cpu")
    out = flex_attention(q[None], k[None], v[None], block_mask=mask)
    assert isinstance(out, Tensor)
    return out[0]
