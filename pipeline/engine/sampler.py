"""The next token of every row at once: greedy rows and sampled rows in one step.

The filters follow SGLang's ``top_k_top_p_min_p_sampling_from_probs_torch``. The draw is by
inverting the distribution function with one uniform number per row, which comes from the
request's own generator: a seeded request gives the same tokens whoever it shares the batch with, as
long as no number falls so near the border between two tokens that rounding decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

import torch
from torch import Tensor

from .sampling import SamplingParams

#: For a large vocabulary only so many candidates are sorted, if they hold enough of the mass.
CANDIDATES = 1024


class Row(Protocol):
    """What the sampler needs to know about a running request."""

    @property
    def params(self) -> SamplingParams: ...
    @property
    def output_ids(self) -> Sequence[int]: ...
    @property
    def rng(self) -> Random: ...
    @property
    def stop_ids(self) -> frozenset[int]: ...


def _penalise(logits: Tensor, row: int, request: Row) -> None:
    """Apply the penalties for the output so far to ``logits[row]`` in place (prompt excluded)."""
    p = request.params
    if not request.output_ids:
        return
    ids = torch.tensor(request.output_ids, device=logits.device)
    seen, counts = torch.unique(ids, return_counts=True)
    scores = logits[row, seen]
    scores = scores - p.frequency_penalty * counts - p.presence_penalty
    if p.repetition_penalty != 1.0:
        scaled = scores * p.repetition_penalty
        scores = torch.where(scores < 0, scaled, scores / p.repetition_penalty)
    logits[row, seen] = scores


def _adjust(logits: Tensor, rows: Sequence[Row]) -> Tensor:
    """Logits after penalties and, before ``min_new_tokens``, without the tokens that would stop."""
    touched = [
        i
        for i, r in enumerate(rows)
        if r.params.penalised or len(r.output_ids) < r.params.min_new_tokens
    ]
    if not touched:
        return logits
    logits = logits.clone()
    for i in touched:
        request = rows[i]
        if request.params.penalised:
            _penalise(logits, i, request)
        if len(request.output_ids) < request.params.min_new_tokens and request.stop_ids:
            logits[i, torch.tensor(sorted(request.stop_ids), device=logits.device)] = -torch.inf
    return logits


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, device=like.device, dtype=torch.float32)[:, None]


def _filtered(probs: Tensor, params: Sequence[SamplingParams]) -> tuple[Tensor, Tensor]:
    """Candidates by falling probability, and their weights with the excluded ones at 0."""
    vocabulary = probs.shape[1]
    top_ks = [p.top_k if p.top_k > 0 else vocabulary for p in params]
    top_ps = _column([p.top_p for p in params], probs)
    count = min(vocabulary, CANDIDATES)
    weights, tokens = probs.topk(count, dim=1)
    # The rest cannot matter if every row ends within the candidates, by rank or by mass.
    enough = weights.sum(1) >= top_ps[:, 0]
    ended = torch.tensor([k <= count for k in top_ks], device=probs.device)
    if count < vocabulary and not bool((enough & (top_ps[:, 0] < 1) | ended).all()):
        weights, tokens = probs.sort(dim=1, descending=True)
    rank = torch.arange(weights.shape[1], device=probs.device)
    before = weights.cumsum(1) - weights
    excluded = rank >= _column(top_ks, probs)
    excluded |= before > top_ps
    excluded |= weights < weights[:, :1] * _column([p.min_p for p in params], probs)
    excluded[:, 0] = False  # the best token always stays
    return tokens, weights.masked_fill(excluded, 0.0)


def _draw(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Index of one column per row, drawn in proportion to its weight."""
    cumulative = weights.cumsum(1)
    total = cumulative[:, -1:]
    # Rounding must not lift the target to the total: the column found would then be past the end.
    target = (uniforms[:, None] * total).minimum(total.nextafter(torch.zeros_like(total)))
    index = torch.searchsorted(cumulative, target, right=True)
    return index.clamp_(max=weights.shape[1] - 1)[:, 0]


@torch.inference_mode()
def sample(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    """Next token of each row from ``logits`` ``[n, v]``; consumes one number of each sampled
    row's generator."""
    logits = _adjust(logits.float(), rows)
    result = logits.argmax(1)
    chosen = [i for i, r in enumerate(rows) if not r.params.greedy]
    if chosen:
        params = [rows[i].params for i in chosen]
        picked = logits if len(chosen) == len(rows) else logits[chosen]
        probs = (picked / _column([p.temperature for p in params], picked)).softmax(1)
        uniforms = _column([rows[i].rng.random() for i in chosen], probs)[:, 0]
        if any(p.top_k > 0 or p.top_p < 1.0 or p.min_p > 0.0 for p in params):
            tokens, weights = _filtered(probs, params)
            drawn = tokens.gather(1, _draw(weights, uniforms)[:, None])[:, 0]
        else:
            drawn = _draw(probs, uniforms)
        result[torch.tensor(chosen, device=result.device)] = drawn
    tokens_out: list[int] = result.tolist()
    return tokens_out
