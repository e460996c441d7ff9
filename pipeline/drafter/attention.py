"""Attention of the training-time test: a causal block over documents laid end to end, and one key
of each earlier step on a row's own diagonal.

Query (t, j) sees the step-0 keys s <= t of its document, and the keys (t, 1) … (t, j) of its own
row. Outputs of the causal block and of the diagonal keys are joined by their log-sum-exp, so the
block never grows with the steps. The backward pass gives the kernel the *joined* output and
log-sum-exp: its probabilities exp(score - lse) are then those of the whole row, and the gradient is
exact without one for the log-sum-exp (the same that ring attention does).

Only the *tail* of a document asks: rows before it (a prompt, but for its end) have keys for others
to see, but nothing is learned from them, so they have no queries and no later steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, Protocol

import torch
from torch import Tensor

_BLOCK_ROWS: Final = 1024
"""Queries per block where scores are written out."""
_HALF: Final = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Documents:
    """Where documents begin and end in N rows laid end to end, and in the A rows of their tails."""

    bounds: tuple[int, ...]
    """0, end of the first, …, N."""
    tail_bounds: tuple[int, ...]
    """0, end of the first tail among the tails, …, A."""
    starts: Tensor
    """`bounds`, int32 [D+1], on the rows' device."""
    tail_starts: Tensor
    """`tail_bounds`, likewise."""
    tail_rows: Tensor
    """int64 [A]: the rows of the tails, among the N."""

    @classmethod
    def of(cls, lengths: list[int], tails: list[int] | None = None) -> Documents:
        """Documents of these lengths, on the CPU, with tails of these; without: all of each."""
        tails = lengths if tails is None else tails
        bounds, tail_bounds = (tuple(accumulate(n, initial=0)) for n in (lengths, tails))
        rows = [torch.arange(b - n, b) for b, n in zip(bounds[1:], tails, strict=True)]
        return cls(
            bounds,
            tail_bounds,
            torch.tensor(bounds, dtype=torch.int32),
            torch.tensor(tail_bounds, dtype=torch.int32),
            torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int64),
        )

    def moved(self, change: Callable[[Tensor], Tensor]) -> Documents:
        """The same with every tensor changed, as to another device."""
        tensors = (change(t) for t in (self.starts, self.tail_starts, self.tail_rows))
        return Documents(self.bounds, self.tail_bounds, *tensors)

    def spans(self) -> list[tuple[slice, slice]]:
        """Rows of each document, and those of its tail among the tails."""
        return [
            (slice(a, b), slice(c, d))
            for (a, b), (c, d) in zip(
                pairwise(self.bounds), pairwise(self.tail_bounds), strict=True
            )
        ]


def _longest(bounds: tuple[int, ...]) -> int:
    return max((b - a for a, b in pairwise(bounds)), default=0)


class Kernel(Protocol):
    """Causal attention within documents. q [A, heads, d], k and v [N, heads, d], equal numbers of
    heads unless `groups`; lse: float32 [heads, A]."""

    groups: bool
    """Takes fewer key heads than query heads."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, docs: Documents, scale: float
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Output [A, heads, d], log-sum-exp, and what the backward pass needs besides."""
        ...

    def backward(
        self,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        docs: Documents,
        scale: float,
        rest: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k and v, given output and log-sum-exp of the whole row."""
        ...


class _PerDocument:
    """A kernel that is called for one document at a time."""

    groups = False

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, docs: Documents, scale: float
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        out = torch.empty_like(q)
        wide = torch.promote_types(q.dtype, torch.float32)
        lse = q.new_empty(q.shape[1], q.shape[0], dtype=wide)
        for rows, tail in docs.spans():
            out[tail], lse[:, tail] = self.one(q[tail], k[rows], v[rows], scale)
        return out, lse, ()

    def backward(
        self,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        docs: Documents,
        scale: float,
        rest: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:
        grads = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for rows, tail in docs.spans():
            part = (grad[tail], q[tail], k[rows], v[rows], out[tail])
            found = self.one_backward(*part, lse[:, tail], scale)
            for whole, piece, where in zip(grads, found, (tail, rows, rows), strict=True):
                whole[where] = piece
        return grads

    def one(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """q [t, heads, d] are the last of the T rows of k and v."""
        raise NotImplementedError

    def one_backward(
        self, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError


def _heads_first(*tensors: Tensor) -> list[Tensor]:
    """[T, heads, d] → [1, heads, T, d]"""
    return [t.transpose(0, 1)[None] for t in tensors]


class CpuFlash(_PerDocument):
    """PyTorch's fused CPU attention: one causal call for the tail's own keys, and one for those
    before it, which every row of the tail sees."""

    def one(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        before = len(k) - len(q)
        out, lse = _cpu_flash(q, k[before:], v[before:], True, scale)
        if not before:
            return out, lse
        out_before, lse_before = _cpu_flash(q, k[:before], v[:before], False, scale)
        joined = torch.logaddexp(lse, lse_before)
        out = out * _per_row(lse - joined) + out_before * _per_row(lse_before - joined)
        return out, joined

    def one_backward(
        self, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        before = len(k) - len(q)
        rest = (out, lse, scale)
        dq, dk, dv = _cpu_flash_backward(grad, q, k[before:], v[before:], True, *rest)
        if not before:
            return dq, dk, dv
        more, dk_before, dv_before = _cpu_flash_backward(
            grad, q, k[:before], v[:before], False, *rest
        )
        return dq + more, torch.cat((dk_before, dk)), torch.cat((dv_before, dv))


def _cpu_flash(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *_heads_first(q, k, v), 0.0, causal, scale=scale
    )
    return out[0].transpose(0, 1), lse[0]


def _cpu_flash_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    out: Tensor,
    lse: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    found = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        *_heads_first(grad, q, k, v, out), lse[None].contiguous(), 0.0, causal, scale=scale
    )
    dq, dk, dv = (t[0].transpose(0, 1) for t in found)
    return dq, dk, dv


class Explicit(_PerDocument):
    """Scores written out, block of queries by block: any device and type, exact in float64."""

    def one(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        outs, sums = [], []
        for a in range(0, len(q), _BLOCK_ROWS):
            scores = self._scores(q, k, a, scale)
            lse = scores.logsumexp(-1)
            probability = (scores - lse[..., None]).exp().to(v.dtype)
            outs.append(torch.einsum("hts,shd->thd", probability, v[: scores.shape[-1]]))
            sums.append(lse)
        return torch.cat(outs), torch.cat(sums, dim=1)

    def one_backward(
        self, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for a in range(0, len(q), _BLOCK_ROWS):
            b = min(a + _BLOCK_ROWS, len(q))
            scores = self._scores(q, k, a, scale)
            probability = (scores - lse[:, a:b, None].to(scores.dtype)).exp()
            delta = (grad[a:b] * out[a:b]).to(scores.dtype).sum(-1).transpose(0, 1)
            seen = scores.shape[-1]
            dp = torch.einsum("thd,shd->hts", grad[a:b], v[:seen]).to(scores.dtype)
            ds = (probability * (dp - delta[..., None]) * scale).to(q.dtype)
            dq[a:b] = torch.einsum("hts,shd->thd", ds, k[:seen])
            dk[:seen] += torch.einsum("hts,thd->shd", ds, q[a:b])
            dv[:seen] += torch.einsum("hts,thd->shd", probability.to(q.dtype), grad[a:b])
        return dq, dk, dv

    @staticmethod
    def _scores(q: Tensor, k: Tensor, start: int, scale: float) -> Tensor:
        """Masked scores [heads, t, s] of a block of queries against the keys up to its end."""
        end = min(start + _BLOCK_ROWS, len(q))
        before = len(k) - len(q)
        scores = torch.einsum("thd,shd->hts", q[start:end], k[: before + end]) * scale
        scores = scores if scores.dtype == torch.float64 else scores.float()
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device)
        hidden = hidden.triu(before + start + 1)
        return scores.masked_fill(hidden, float("-inf"))


def _lengths(docs: Documents) -> tuple[int, int]:
    return _longest(docs.tail_bounds), _longest(docs.bounds)


class CudaFlash:
    """FlashAttention over all documents in one call; half precision only. Where queries are fewer
    than keys it takes them for the last ones."""

    groups = True

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, docs: Documents, scale: float
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        out, lse, seed, offset, _ = torch.ops.aten._flash_attention_forward(
            *(q.contiguous(), k.contiguous(), v.contiguous()),
            *(docs.tail_starts, docs.starts, *_lengths(docs)),
            *(0.0, True, False),
            scale=scale,
        )
        return out, lse, (seed, offset)

    def backward(
        self,
        grad: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        lse: Tensor,
        docs: Documents,
        scale: float,
        rest: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor, Tensor]:
        dq, dk, dv = torch.ops.aten._flash_attention_backward(
            *(grad.contiguous(), q.contiguous(), k.contiguous(), v.contiguous()),
            *(out.contiguous(), lse.contiguous()),
            *(docs.tail_starts, docs.starts, *_lengths(docs)),
            *(0.0, True, *rest),
            scale=scale,
        )
        return dq, dk, dv


def choose_kernel(q: Tensor) -> Kernel:
    """The fastest kernel for such queries."""
    if q.device.type == "cuda" and q.dtype in _HALF:
        return CudaFlash()
    if q.device.type == "cpu" and q.dtype == torch.float32:
        return CpuFlash()
    return Explicit()


class _Attend(torch.autograd.Function):
    """See `attend`."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k0: Tensor,
        v0: Tensor,
        docs: Documents,
        scale: float,
        kernel: Kernel,
        *diagonal: Tensor,
    ) -> Tensor:
        kv_heads = k0.shape[1]
        grow = 1 if kernel.groups else q.shape[1] // kv_heads
        keys, values = k0.repeat_interleave(grow, 1), v0.repeat_interleave(grow, 1)
        out, lse0, rest = kernel.forward(q, keys, values, docs, scale)
        lse = lse0
        steps = len(diagonal) // 2
        if steps:
            wide = _grouped(q, kv_heads).to(lse0.dtype)
            scores = [
                ((wide * k[:, :, None]).sum(-1) * scale).flatten(1).transpose(0, 1)
                for k in diagonal[:steps]
            ]
            lse = torch.logsumexp(torch.stack([lse0, *scores]), dim=0)
            joined = _grouped(out * _per_row(lse0 - lse), kv_heads)
            for score, v in zip(scores, diagonal[steps:], strict=True):
                weight = _grouped(_per_row(score - lse), kv_heads)
                joined = joined.addcmul_(weight, v[:, :, None].to(joined.dtype))
            out = joined.flatten(1, 2).to(q.dtype)
        ctx.save_for_backward(q, k0, v0, out, lse, *rest, *diagonal)
        ctx.docs, ctx.scale, ctx.kernel, ctx.grow = docs, scale, kernel, grow
        ctx.rest, ctx.steps = len(rest), steps
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        q, k0, v0, out, lse, *others = ctx.saved_tensors
        rest, diagonal = tuple(others[: ctx.rest]), others[ctx.rest :]
        keys, values = k0.repeat_interleave(ctx.grow, 1), v0.repeat_interleave(ctx.grow, 1)
        dq, dk, dv = ctx.kernel.backward(
            grad.to(q.dtype), q, keys, values, out, lse, ctx.docs, ctx.scale, rest
        )
        if ctx.grow > 1:
            dk, dv = (_grouped(t, k0.shape[1]).sum(2) for t in (dk, dv))
        if not ctx.steps:
            return dq, dk, dv, None, None, None
        kv_heads = k0.shape[1]
        wide_q, wide_grad = (_grouped(t, kv_heads).to(lse.dtype) for t in (q, grad))
        delta = (wide_grad * _grouped(out, kv_heads)).sum(-1, keepdim=True)
        row_lse = _grouped(lse.transpose(0, 1)[..., None], kv_heads)
        dq = _grouped(dq, kv_heads).to(lse.dtype)
        d_keys, d_values = [], []
        for k, v in zip(diagonal[: ctx.steps], diagonal[ctx.steps :], strict=True):
            k_wide, v_wide = k[:, :, None].to(lse.dtype), v[:, :, None].to(lse.dtype)
            score = (wide_q * k_wide).sum(-1, keepdim=True) * ctx.scale
            probability = (score - row_lse).exp()
            ds = probability * ((wide_grad * v_wide).sum(-1, keepdim=True) - delta) * ctx.scale
            dq = dq.addcmul_(ds, k_wide)
            d_keys.append((ds * wide_q).sum(2).to(k.dtype))
            d_values.append((probability * wide_grad).sum(2).to(v.dtype))
        return dq.flatten(1, 2).to(q.dtype), dk, dv, None, None, None, *d_keys, *d_values


def _grouped(x: Tensor, kv_heads: int) -> Tensor:
    """[N, heads, d] → [N, kv_heads, heads/kv_heads, d]"""
    return x.reshape(len(x), kv_heads, -1, x.shape[-1])


def _per_row(logs: Tensor) -> Tensor:
    """exp of [heads, N] as [N, heads, 1]."""
    return logs.exp().transpose(0, 1)[..., None]


# The compiler would trace it anew for every packing of documents; it is a kernel call anyway.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def attend(
    q: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    docs: Documents,
    scale: float,
    kernel: Kernel | None = None,
) -> Tensor:
    """Attention of step j = len(keys) - 1 of the tails' rows: q [A, heads, d]; keys[0], values[0]
    [N, kv_heads, d] of step 0 of all rows, keys[i], values[i] [A, kv_heads, d] of steps 1..j of the
    tails' own. Gives [A, heads, d]."""
    out: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
        *(q, keys[0], values[0], docs, scale, kernel or choose_kernel(q)),
        *(*keys[1:], *values[1:]),
    )
    return out
