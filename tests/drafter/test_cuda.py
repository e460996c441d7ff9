"""On a GPU: the kernels there give what the explicit attention gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eagle_tui.pipeline.drafter.attention import CudaFlash, Documents, Explicit, Kernel, attend

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("tails", [None, [200, 1, 30, 64]])
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_flash_attention_is_the_explicit_one(tails: list[int] | None, kv_heads: int) -> None:
    lengths = [333, 1, 30, 700]
    docs = Documents.of(lengths, tails).moved(lambda t: t.cuda())
    random = torch.Generator("cuda").manual_seed(0)
    asking, n = docs.tail_bounds[-1], docs.bounds[-1]

    def tensor(rows: int, heads: int) -> Tensor:
        made = torch.randn(rows, heads, 64, generator=random, device="cuda")
        return made.bfloat16().float().requires_grad_()

    q = tensor(asking, 4)
    keys, values = ([tensor(r, kv_heads) for r in (n, asking, asking)] for _ in range(2))
    slope = torch.randn(asking, 4, 64, generator=random, device="cuda")

    def run(kernel: Kernel, dtype: torch.dtype) -> list[Tensor]:
        cast = [[t.to(dtype) for t in group] for group in (keys, values)]
        out = attend(q.to(dtype), *cast, docs, 0.125, kernel)
        return [out, *torch.autograd.grad((out.float() * slope).sum(), [q, *keys, *values])]

    for found, wanted in zip(
        run(CudaFlash(), torch.bfloat16), run(Explicit(), torch.float32), strict=True
    ):
        error = (found.float() - wanted).norm() / wanted.norm()
        assert error < 0.01, error
