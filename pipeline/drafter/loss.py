"""Soft cross-entropy between the target's distribution over the draft vocabulary and the drafter's,
without a tensor of tokens by vocabulary.

Everything here works on *target positions*: the n supervised positions s of a batch (mask 1, not
the first of a document). Step j predicts with row t = s-1-j what the target's distribution at s
says; it is valid where that row is in the same document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from .module import Drafter

_VOCABULARY_CHUNK: Final = 32_768
_LOGITS: Final = {"cpu": 1 << 20}
"""Logits (all steps together) at a time: what fits the caches of a CPU."""
_LOGITS_GPU: Final = 1 << 27
"""4096 rows of a vocabulary of 32k: half a GB in float32."""


def _rows_at_a_time(like: Tensor, logits_per_row: int) -> int:
    return max(16, _LOGITS.get(like.device.type, _LOGITS_GPU) // logits_per_row)


class TargetHead:
    """The target's language-model head, frozen, and the part of it that the drafter knows."""

    def __init__(
        self,
        head: Tensor,
        kept: Tensor,
        *,
        factor: float = 1.0,
        cap: float | None = None,
        compiled: bool = False,
    ) -> None:
        """`head` [V, Ht] in the type of the computation; `kept` int64 [Vd], ascending target ids;
        logits are head(x)·factor, then capped by cap·tanh(·/cap). `compiled`: the passes over
        logits become one kernel; pays on a GPU."""
        self.head = head
        self.whole = len(kept) == len(head)
        self.known = head if self.whole else head[kept]
        self.is_known = torch.zeros(len(head), dtype=torch.bool, device=head.device)
        self.is_known[kept] = True
        self._factor, self._cap = factor, cap
        self.slopes = torch.compile(slopes, dynamic=True) if compiled else slopes

    def _shape(self, logits: Tensor) -> Tensor:
        logits = logits.float()
        if self._factor != 1.0:
            logits = logits * self._factor
        return logits if self._cap is None else self._cap * torch.tanh(logits / self._cap)

    def draft_logits(self, last: Tensor) -> Tensor:
        """The target's logits of the draft vocabulary, float32 [n, Vd], of states [n, Ht]."""
        return self._shape(last.to(self.known.dtype) @ self.known.T)

    @torch.no_grad()
    def survey(self, last: Tensor) -> tuple[Tensor, Tensor]:
        """Log-sum-exp float32 [n] and argmax int64 [n] over the whole vocabulary, of states
        [n, Ht]."""
        lse = last.new_full((len(last),), float("-inf"), dtype=torch.float32)
        best = lse.clone()
        arg = torch.zeros(len(last), dtype=torch.int64, device=last.device)
        rows = _rows_at_a_time(last, min(_VOCABULARY_CHUNK, len(self.head)))
        for a in range(0, len(last), rows):
            part = slice(a, a + rows)
            states = last[part].to(self.head.dtype)
            for first in range(0, len(self.head), _VOCABULARY_CHUNK):
                logits = self._shape(states @ self.head[first : first + _VOCABULARY_CHUNK].T)
                top, where = logits.max(-1)
                arg[part] = torch.where(top > best[part], where + first, arg[part])
                best[part] = torch.maximum(top, best[part])
                # Log-sum-exp of the chunk, with the maximum that is known, in place.
                summed = logits.sub_(top[:, None]).exp_().sum(-1).log_().add_(top)
                lse[part] = torch.logaddexp(lse[part], summed)
        return lse, arg


@dataclass(frozen=True)
class Targets:
    """What is to be learned at the n supervised positions of a batch."""

    last: Tensor
    """[n, Ht], the target's final states (post-norm) there."""
    lse: Tensor
    """float32 [n], over the whole vocabulary."""
    argmax: Tensor
    """int64 [n], over the whole vocabulary."""
    rows: Tensor
    """int64 [steps, n]: the draft row of each step among the rows of the tails, clamped where there
    is none."""
    valid: Tensor
    """bool [steps, n]: the row is in the document."""
    learn: Tensor
    """bool [steps, n]: valid, and the target's favourite is in the draft vocabulary."""


def make_targets(
    head: TargetHead, last: Tensor, anchors: Tensor, depths: Tensor, steps: int
) -> Targets:
    """Targets of n supervised positions s: `anchors` int64 [n] are the rows s-1 among the rows of
    the tails, `depths` int64 [n] (>= 1) the positions in their documents, `last` [n, Ht] the
    target's states there. The tails must begin `steps` rows before the first s, or with the
    document."""
    lse, argmax = head.survey(last)
    step = torch.arange(steps, device=anchors.device)[:, None]
    valid = depths[None] >= 1 + step
    rows = (anchors[None] - step).clamp(min=0)
    return Targets(last, lse, argmax, rows, valid, valid & head.is_known[argmax][None])


@dataclass(frozen=True)
class Outcome:
    """What a pass found, per step and target position; counts only where `Targets.valid`."""

    loss: Tensor
    """Scalar with gradient: sum of row weights times cross-entropy."""
    hits: Tensor
    """bool [steps, n]: the drafter's favourite is the target's, of the whole vocabulary."""
    alpha: Tensor
    """float32 [steps, n]: sum of min(p, q), p over the whole vocabulary. Zero in training, where
    it would cost more than it tells."""


def head_loss(
    drafter: Drafter,
    states: Tensor,
    targets: Targets,
    head: TargetHead,
    row_weights: Tensor,
    *,
    gradient: bool = True,
) -> Outcome:
    """Loss of states y [steps, A, H] under row weights float32 [steps, n] (0 where nothing is to be
    learned). Without `gradient` for evaluation: nothing can be propagated back, and alpha is
    told."""
    steps = len(states)
    picked = torch.stack([states[j][targets.rows[j]] for j in range(steps)])
    normed = drafter.norm(picked)
    kept = drafter.target_ids()
    loss, hits, alpha = _HeadLoss.apply(  # type: ignore[no-untyped-call]
        normed, drafter.lm_head.weight, row_weights, targets, head, kept, gradient
    )
    return Outcome(loss, hits & targets.valid, alpha)


def slopes(raw: Tensor, wanted: Tensor, row_weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of logits `raw` [steps, c, Vd], the target's logits `wanted` float32 [c, Vd] and weights
    [steps, c]: the sum of weight times cross-entropy, its gradient by `raw` in the type of `raw`,
    and the favourites int64 [steps, c]."""
    # Every pass over these logits costs as much as the matrix product that made them on a GPU: one
    # fused kernel takes them to log-probabilities, and the gradient is made in their place.
    target = wanted.softmax(-1)
    log_q = raw.log_softmax(-1, dtype=torch.float32)
    cross = -(log_q * target).sum(-1)
    slope = log_q.exp_().sub_(target).mul_(row_weights[..., None])
    return (row_weights * cross).sum(), slope.to(raw.dtype), raw.argmax(-1)


class _HeadLoss(torch.autograd.Function):
    """Head and soft cross-entropy, chunk by chunk. Its gradient is computed in the forward pass
    already, where the logits are at hand: nothing is kept or computed twice."""

    @staticmethod
    def forward(
        ctx: Any,
        normed: Tensor,
        weight: Tensor,
        row_weights: Tensor,
        targets: Targets,
        head: TargetHead,
        kept: Tensor,
        gradient: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        steps, n, width = normed.shape
        matrix = weight.to(normed.dtype)
        grad_normed = torch.zeros_like(normed) if gradient else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if gradient else None
        loss = normed.new_zeros((), dtype=torch.float32)
        hits = torch.zeros(steps, n, dtype=torch.bool, device=normed.device)
        alpha = normed.new_zeros(steps, n, dtype=torch.float32)
        rows = _rows_at_a_time(normed, len(weight) * steps)
        for a in range(0, n, rows):
            part = slice(a, min(a + rows, n))
            wanted = head.draft_logits(targets.last[part])
            states = normed[:, part].reshape(-1, width)
            raw = (states @ matrix.T).reshape(steps, -1, len(weight))
            part_loss, slope, favourite = head.slopes(raw, wanted, row_weights[:, part])
            loss += part_loss
            hits[:, part] = kept[favourite] == targets.argmax[part]
            if grad_normed is not None and grad_weight is not None:
                slope = slope.reshape(-1, len(weight))
                grad_normed[:, part] = (slope @ matrix).reshape(steps, -1, width)
                grad_weight += slope.T @ states
            else:
                absolute = (wanted - targets.lse[part, None]).exp()
                alpha[:, part] = torch.minimum(raw.float().softmax(-1), absolute).sum(-1)
        if grad_normed is not None and grad_weight is not None:
            ctx.save_for_backward(grad_normed, grad_weight.to(weight.dtype))
        ctx.mark_non_differentiable(hits, alpha)
        return loss, hits, alpha

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_normed, grad_weight = ctx.saved_tensors
        return grad_normed * grads[0], grad_weight * grads[0], None, None, None, None, None
