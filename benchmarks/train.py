"""How fast a drafter trains, beside the bare matrix products that it cannot do without.

    python benchmarks/train.py [--device auto|cpu|cuda] [--preset tiny|135m|8b] [--steps 20]

In one run and on the same batches: (a) the training step (target's head, training-time test, loss,
clipping, optimizer, batches made ahead from shards on disk), (b) the floor: forward and backward
passes of the same matrices on as many rows, attention and all else left out. Prints JSON: tokens
per second of both, their ratio, model FLOP/s utilisation (on a known GPU), and the share of time
in which no batch was there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from eagle_tui.config.drafter import TrainSection
from eagle_tui.pipeline.drafter.config import DrafterConfig
from eagle_tui.pipeline.drafter.loss import TargetHead, make_targets
from eagle_tui.pipeline.drafter.module import Drafter
from eagle_tui.pipeline.extraction.shardfile import write_shard
from eagle_tui.pipeline.training.data import Ahead, Batch, Table
from eagle_tui.pipeline.training.flops import peak_flops, step_flops
from eagle_tui.pipeline.training.loop import clip
from eagle_tui.pipeline.training.model import TrainingModel
from eagle_tui.pipeline.training.optimizers import Optimizers
from eagle_tui.pipeline.training.plan import Plan
from eagle_tui.pipeline.training.sources import StoredRows


@dataclass(frozen=True)
class Shape:
    """A drafter for a target of that size."""

    config: DrafterConfig
    batch_tokens: int
    steps: int
    row_tokens: int


def _config(h: int, heads: int, kv: int, d: int, inner: int, v: int, vd: int) -> DrafterConfig:
    return DrafterConfig(h, heads, kv, d, inner, v, vd, (2, 15, 27), 8192)


PRESETS = {
    "tiny": Shape(_config(192, 4, 2, 64, 512, 1024, 512), 2048, 4, 200),
    "135m": Shape(_config(576, 9, 3, 64, 1536, 49152, 32000), 8192, 7, 700),
    "8b": Shape(_config(4096, 32, 8, 128, 14336, 128256, 32000), 8192, 7, 1500),
}


def write_rows(directory: Path, shape: Shape, tokens: int) -> Path:
    """A shard of random rows, a third of each a prompt, of lengths around the preset's."""
    random = torch.Generator().manual_seed(0)
    lengths: list[int] = []
    while sum(lengths) < tokens:
        spread = 0.4 + 1.2 * float(torch.rand(1, generator=random))
        lengths.append(int(shape.row_tokens * spread))
    total, width = sum(lengths), shape.config.hidden_size
    masks = [(torch.arange(n) >= n // 3).to(torch.uint8) for n in lengths]
    pieces = {
        "input_ids": [
            torch.randint(shape.config.vocab_size, (total,), generator=random).to(torch.int32)
        ],
        "loss_mask": masks,
        "aux": [torch.randn(total, 3 * width, generator=random).bfloat16()],
        "last": [torch.randn(total, width, generator=random).bfloat16()],
        "offsets": [torch.tensor([0, *lengths]).cumsum(0)],
    }
    index = [
        {"id": str(i), "dataset": "d", "tokens": n, "supervised": int(m.sum())}
        for i, (n, m) in enumerate(zip(lengths, masks, strict=True))
    ]
    path = directory / "train-00000.safetensors"
    write_shard(path, pieces, {"layers": "2,15,27", "norm": "post"}, index)
    return path


def sync(device: torch.device) -> None:
    """Wait until the device has done all it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize()


class Floor:
    """The same matrices on as many rows: linear layers of the drafter and both heads, nothing
    else."""

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        c = shape.config
        h, q, kv = (
            c.hidden_size,
            c.num_attention_heads * c.head_dim,
            2 * c.num_key_value_heads * c.head_dim,
        )
        self._steps, self._dtype, self._device = shape.steps, dtype, device

        def matrix(rows: int, columns: int) -> torch.Tensor:
            made = torch.randn(rows, columns, device=device, dtype=dtype) * 0.02
            return made.requires_grad_()

        self.everywhere = [matrix(3 * h, h), matrix(h, q + kv), matrix(h, kv)]
        self.once = [matrix(h, q)]
        self.later = [matrix(h, q + kv)]
        inner = c.intermediate_size
        self.layer = [matrix(q, h), matrix(h, inner), matrix(h, inner), matrix(inner, h)]
        self.head = matrix(h, c.draft_vocab_size)
        self.frozen = [matrix(h, c.vocab_size).detach(), matrix(h, c.draft_vocab_size).detach()]

    def __call__(self, batch: Batch) -> None:
        """Forward and backward."""
        tokens, tail, n = batch.tokens, batch.rows.docs.tail_bounds[-1], len(batch.depths)
        for weights, rows, times in (
            (self.everywhere, tokens, 1),
            ([*self.once, *self.layer], tail, 1),
            ([*self.later, *self.layer], tail, self._steps - 1),
        ):
            for weight in weights * times:
                self._both(weight, rows)
        limit = max(1, (1 << 27) // self.head.shape[1])
        for _ in range(self._steps):
            for a in range(0, n, limit):
                self._both(self.head, min(limit, n - a))
        for weight in self.frozen:
            for a in range(0, n, limit):
                rows = min(limit, n - a)
                torch.empty(rows, weight.shape[0], device=self._device, dtype=self._dtype) @ weight

    def _both(self, weight: torch.Tensor, rows: int) -> None:
        x = torch.empty(rows, weight.shape[0], device=self._device, dtype=self._dtype)
        slope = torch.empty(rows, weight.shape[1], device=self._device, dtype=self._dtype)
        with torch.no_grad():
            x @ weight
            slope @ weight.T
            slope.T @ x


def timed(
    work: Callable[[Batch], None], batches: Iterator[Batch], device: torch.device
) -> tuple[float, int]:
    """Seconds and tokens of some batches."""
    sync(device)
    start, tokens = time.perf_counter(), 0
    for batch in batches:
        work(batch)
        tokens += batch.tokens
    sync(device)
    return time.perf_counter() - start, tokens


def measure(shape: Shape, device: torch.device, steps: int, *, compiled: bool) -> dict[str, object]:
    """Both rates; see the module."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    settings = TrainSection(ttt_steps=shape.steps, batch_tokens=shape.batch_tokens)
    config = shape.config
    drafter = Drafter(config)
    drafter.initialise(0)
    drafter.set_vocabulary(
        torch.arange(config.draft_vocab_size) * (config.vocab_size // config.draft_vocab_size)
    )
    drafter = drafter.to(device)
    drafter.set_embedding(torch.randn(config.vocab_size, config.hidden_size), dtype)
    head = TargetHead(
        torch.randn(config.vocab_size, config.hidden_size, device=device, dtype=dtype) * 0.02,
        drafter.target_ids(),
        compiled=compiled,
    )
    model = TrainingModel(drafter, head, shape.steps, dtype)
    if compiled:
        drafter.midlayer.compile_rest()
    optimizers = Optimizers(drafter, settings)
    decay = settings.step_decay ** torch.arange(shape.steps, device=device)
    flops: list[float] = []

    def step(batch: Batch) -> None:
        there = batch.to(device)
        targets = make_targets(head, there.last, there.anchors, there.depths, shape.steps)
        weights = targets.learn * (decay / targets.learn.sum(1).clamp(min=1))[:, None]
        loss, _, _ = model(there.rows, targets, weights)
        loss.backward()
        clip(drafter, settings.clip)
        optimizers.step()
        flops.append(
            step_flops(
                config, batch.rows.docs, len(batch.depths), shape.steps,
                config.vocab_size + config.draft_vocab_size,
            )
        )  # fmt: skip

    folder = Path(tempfile.mkdtemp(prefix="bench-train-"))
    try:
        tokens = shape.batch_tokens * min(steps, 8)
        table = Table(StoredRows([write_rows(folder, shape, tokens)]), 1 << 20, shape.steps)
        plan = Plan(table.lengths, shape.batch_tokens, 1000, 0)
        packs = ((e, p) for e in range(1000) for p in range(plan.packs(e)))
        rows = (plan.rows(e, p) for e, p in packs)
        waits: list[float] = []
        cuda = device.type == "cuda"
        with Ahead(table, rows, pin=cuda, threads=4 if cuda else 1) as ahead:

            def batches(count: int) -> Iterator[Batch]:
                for _ in range(count):
                    before = time.perf_counter()
                    batch = ahead.take()
                    waits.append(time.perf_counter() - before)
                    assert batch is not None
                    yield batch

            timed(step, batches(3), device)
            flops.clear()
            waits.clear()
            seconds, done = timed(step, batches(steps), device)
            waited = sum(waits)
            kept = list(batches(min(steps, 8)))
        floor = Floor(shape, device, dtype)
        timed(floor, iter(kept[:2]), device)
        floor_seconds, floor_done = timed(floor, iter(kept), device)
    finally:
        shutil.rmtree(folder)
    peak = peak_flops(device)
    rate, floor_rate = done / seconds, floor_done / floor_seconds
    used = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "ttt_steps": shape.steps,
        "batch_tokens": shape.batch_tokens,
        "compiled": compiled,
        "tok_s": round(rate),
        "floor_tok_s": round(floor_rate),
        "of_floor": round(rate / floor_rate, 3),
        "tflops": round(sum(flops) / seconds / 1e12, 3),
        "mfu": round(sum(flops) / seconds / peak, 4) if peak else None,
        "data_wait": round(waited / seconds, 4),
        "peak_gib": round(used, 2) if used is not None else None,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--preset", choices=tuple(PRESETS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    cuda = torch.cuda.is_available() and args.device != "cpu"
    device = torch.device("cuda" if cuda else "cpu")
    shape = PRESETS[args.preset or ("8b" if cuda else "tiny")]
    print(json.dumps(measure(shape, device, args.steps, compiled=args.compile)))


if __name__ == "__main__":
    main()
