"""How fast phase 4 is, beside the bare forward of the same batches, in one run.

`python benchmarks/extract.py [--model DIR] [--tokens N] [--device cuda] …` prints a table: tokens a
second of the bare forward (the target's decoder on the same padded batches, nothing kept), of the
capture (states captured, packed and copied to the CPU, then dropped), of the extraction (captured,
checked, written and forced to disk), their quotients, the share of time for which the disk held the
computation up, and the highest memory of each, in a process of its own. The bare forward is
measured before and after, and the mean is taken.

Without --model a random Llama of about 30 M parameters (on a GPU 0.9 B) is used; lengths follow a
log-normal as answers do. Only the quotient of one run means something where the machine is shared.

On a GPU `python benchmarks/extract.py --device cuda` is done within a minute and a half: with
`--seconds N` (there 80 by itself) it first looks how fast the bare forward is, and takes as many
tokens as can be measured in that time, in one process, so that the highest memory is that of all
parts. The extraction is then done twice, and the second counts: a virtual machine gets its memory
as it is first touched, slowly. A small target on a large GPU makes several gigabytes of states a
second, more than most disks take; `--directory /dev/shm` shows what the program itself can do.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

BEGAN = time.monotonic()
WARM_BATCHES = 14
WARM_BOUNDED = 3
"""The same where time is short."""
PROBE_S, PROBE_BATCHES = 2.0, 12
"""Of the look at the bare forward, at most."""
PARTS_COST = 8.0
"""How many times the bare forward of the rows all parts take together: twice itself, and at half of
its rate where states are kept, three times."""
ON_GPU = {"seconds": 80.0, "batch_tokens": 65_536, "layers": 16, "hidden": 2048}
ON_CPU = {"tokens": 20_000, "batch_tokens": 16_384, "layers": 8, "hidden": 576}
KIND = {True: torch.bfloat16, False: torch.float32}
"""Of the random target, on a GPU and on a CPU."""
MEAN_LOG, SIGMA_LOG = 6.0, 0.8
"""Of the lengths: a median of 400 tokens."""


def make_model(directory: Path, layers: int, hidden: int, dtype: torch.dtype) -> None:
    """A random Llama, kept in `dtype`: on a GPU the target runs in that of its checkpoint."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    heads = hidden // 64
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=next(n for n in range(max(1, heads // 3), 0, -1) if heads % n == 0),
        max_position_embeddings=8192,
    )
    LlamaForCausalLM(config).to(dtype).save_pretrained(directory)


def make_run(root: Path, model: str, args: argparse.Namespace) -> None:
    """A run directory whose merge has finished."""
    from transformers import AutoConfig

    from eagle_tui.pipeline.shards import ShardWriter, TokenRow
    from eagle_tui.rundir import manifest
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    random = np.random.default_rng(0)
    vocabulary = AutoConfig.from_pretrained(model).get_text_config().vocab_size
    base = run.phase("merge")
    writer = ShardWriter(base / "shards-0001", "train", 4_000_000)
    left = args.tokens
    while left > 0:
        length = int(np.clip(random.lognormal(MEAN_LOG, SIGMA_LOG), 16, args.longest))
        ids = random.integers(0, vocabulary, length).astype(np.int32)
        mask = np.ones(length, np.uint8)
        mask[: length // 4] = 0
        writer.add(f"r{left}", "a", TokenRow(ids, mask))
        left -= length
    writer.flush()
    outputs = {str(p.relative_to(base)): p.stat().st_size for p in writer.paths}
    made = manifest.Manifest(phase="merge", made_at=0.0, attempt=1, inputs={}, outputs=outputs)
    manifest.write(run, made)
    run.config.write_text(
        f'[target]\nmodel = "{model}"\n[[server]]\nurl = "http://localhost:1"\n'
        '[[dataset]]\nname = "a"\nsource = "a.jsonl"\n'
        f'[extract]\ndevice = "{args.device}"\ndtype = "{args.dtype}"\n'
        f"batch_tokens = {args.batch_tokens}\nkeep_free_bytes = 0\n"
    )


def open_post(root: Path) -> tuple[Any, Any]:
    """What a rank works on, and the rows that are left."""
    from eagle_tui.clock import SystemClock
    from eagle_tui.config import load_config
    from eagle_tui.pipeline.extraction.job import Post
    from eagle_tui.pipeline.extraction.plan import choose_layers, read_rows
    from eagle_tui.pipeline.extraction.target import provenance, shape_of
    from eagle_tui.pipeline.extraction.task import look_up, set_up
    from eagle_tui.pipeline.extraction.team import Team
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    config = load_config(run.config)
    layers, _ = choose_layers(None, shape_of(config, run).layers)
    metadata = provenance(config, layers, config.extract.dtype, "")
    wanted = {row.id for row in read_rows(run, None)}
    task = set_up(run, 1, "benchmark", metadata, wanted)
    post = Post(run, config, SystemClock(), threading.Event(), Team.join(), task)
    return post, look_up(config, run, task).left


def bare(root: Path, warm: int = WARM_BATCHES, most_s: float = math.inf) -> dict[str, float]:
    """The forward passes alone; ended after `most_s` seconds."""
    from eagle_tui.pipeline.extraction.job import RowReader
    from eagle_tui.pipeline.extraction.plan import make_batches
    from eagle_tui.pipeline.extraction.target import load_target, pick_device

    post, left = open_post(root)
    device = pick_device(post.config.extract.device)
    model = load_target(post.config, post.run, device)
    reader = RowReader(post.run)
    batches = make_batches(left, post.config.extract.batch_tokens)

    @torch.inference_mode()
    def forward(batch: Sequence[Any]) -> None:
        ids = torch.zeros((len(batch), batch[0].tokens), dtype=torch.int64)
        for line, ref in zip(ids, batch, strict=True):
            line[: ref.tokens] = torch.from_numpy(reader.read(ref).ids)
        model.base_model(input_ids=ids.to(device), use_cache=False)

    for batch in batches[:warm]:
        forward(batch)
    synchronise(device)
    began = time.perf_counter()
    tokens = 0
    for batch in batches:
        forward(batch)
        tokens += sum(ref.tokens for ref in batch)
        if most_s < math.inf:
            synchronise(device)
            if time.perf_counter() - began > most_s:
                break
    synchronise(device)
    return figures(tokens, time.perf_counter() - began, device)


def capture(root: Path, warm: int = WARM_BATCHES) -> dict[str, float]:
    """The states on the CPU, in the order in which the loop asks for them; nothing is written."""
    from eagle_tui.pipeline.extraction.job import RowReader
    from eagle_tui.pipeline.extraction.lead import open_rank
    from eagle_tui.pipeline.extraction.plan import make_batches

    post, left = open_post(root)
    rank = open_rank(post, lambda: None)
    reader = RowReader(post.run)
    batches = make_batches(left, post.config.extract.batch_tokens)
    warm_up(rank, reader, batches[:warm])
    before = None
    began = time.perf_counter()
    for batch in batches:
        states = rank.backend.states([reader.read(ref) for ref in batch])
        if before is not None:
            before.ready()
        before = states
    before.ready()
    seconds = time.perf_counter() - began
    return figures(sum(ref.tokens for ref in left), seconds, rank.model.device)


def warm_up(rank: Any, reader: Any, batches: Sequence[Any]) -> None:
    """A few batches, so that kernels are loaded and memory is taken: as many are alive at a time as
    wait for the disk when it is slow."""
    held = [rank.backend.states([reader.read(ref) for ref in batch]) for batch in batches]
    for states in held:
        states.ready()


def ours(root: Path, warm: int = WARM_BATCHES) -> dict[str, float]:
    """The loop of a rank, to the last byte on disk."""
    from eagle_tui.pipeline.extraction.job import RowReader
    from eagle_tui.pipeline.extraction.lead import open_rank
    from eagle_tui.pipeline.extraction.plan import make_batches

    post, left = open_post(root)
    rank = open_rank(post, lambda: None)
    device = rank.model.device
    batches = make_batches(left, post.config.extract.batch_tokens)
    warm_up(rank, RowReader(post.run), batches[:warm])
    rank.model = None  # its check of the first batch is no part of the rate
    began = time.perf_counter()
    rank.work(left)
    seconds = time.perf_counter() - began
    found = figures(sum(ref.tokens for ref in left), seconds, device)
    size = sum(p.stat().st_size for p in post.directory.glob("*.safetensors"))
    wait = post.team.count("wait_ms") / 1000 / seconds
    more = {"write_mb_s": size / seconds / 1e6, "wait": wait, "writers": float(rank.writers)}
    return {**found, **more}


def figures(tokens: int, seconds: float, device: torch.device) -> dict[str, float]:
    """Rate and highest memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gpu = torch.cuda.max_memory_allocated(device) / 2**20 if device.type == "cuda" else 0.0
    return {"tok_s": tokens / seconds, "ram_mib": peak, "gpu_mib": gpu}


def synchronise(device: torch.device) -> None:
    """Wait for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


PARTS = {"bare": bare, "capture": capture, "ours": ours}


def bounded(temp: Path, model: str, args: argparse.Namespace) -> list[dict[str, float]]:
    """All parts in this process, with as many tokens as `args.seconds` allow from `BEGAN` on."""
    from transformers import AutoConfig

    probe = temp / "probe"
    args.tokens = PROBE_BATCHES * args.batch_tokens
    make_run(probe, model, args)
    rate = bare(probe, WARM_BOUNDED, PROBE_S)["tok_s"]
    shutil.rmtree(probe)
    left = args.seconds - (time.monotonic() - BEGAN)
    width = AutoConfig.from_pretrained(model).get_text_config().hidden_size
    room = shutil.disk_usage(temp).free / 2 / (4 * width * 2)
    warm = 4 * WARM_BOUNDED * args.batch_tokens
    args.tokens = int(max(args.batch_tokens, min((rate * left - warm) / PARTS_COST, room)))
    root = temp / "run"
    make_run(root, model, args)
    print(f"{args.tokens:,} tokens", file=sys.stderr)
    found = []
    for part in (bare, capture, ours, ours, bare):
        shutil.rmtree(root / "hidden", ignore_errors=True)
        found.append(part(root, WARM_BOUNDED))
    first = found.pop(2)["tok_s"]
    print(f"extraction, the first time: {first:,.0f} tok/s", file=sys.stderr)
    return found


def child(part: str, root: Path) -> dict[str, float]:
    """One part in a process of its own, from the beginning."""
    shutil.rmtree(root / "hidden", ignore_errors=True)
    out = subprocess.run(
        [sys.executable, __file__, "--part", part, "--run", str(root)],
        check=True,
        stdout=subprocess.PIPE,
    )
    return dict(json.loads(out.stdout.splitlines()[-1]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="directory of a target (default: a random one)")
    parser.add_argument("--layers", type=int, help="of the random target")
    parser.add_argument("--hidden", type=int, help="of the random target, a multiple of 64")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--seconds", type=float, help="end about then, instead of --tokens")
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--directory", type=Path, help="where the run is made (default: temporary)")
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps(PARTS[args.part](args.run)))
        return
    cuda = torch.cuda.is_available() and args.device != "cpu"
    sized = args.tokens or args.seconds
    for name, value in (ON_GPU if cuda else ON_CPU).items():
        if getattr(args, name) is None and not (sized and name in ("tokens", "seconds")):
            setattr(args, name, value)
    with tempfile.TemporaryDirectory(dir=args.directory) as temp:
        root = Path(temp) / "run"
        model = args.model or str(Path(temp) / "model")
        if not args.model:
            make_model(Path(model), args.layers, args.hidden, KIND[cuda])
        model = str(Path(model).resolve())
        if args.seconds:
            before, taken, mine, after = bounded(Path(temp), model, args)
        else:
            make_run(root, model, args)
            before, taken, mine, after = (
                child(part, root) for part in ("bare", "capture", "ours", "bare")
            )
    rate = (before["tok_s"] + after["tok_s"]) / 2
    print(f"{'':16}{'tok/s':>12}{'RAM MiB':>10}{'GPU MiB':>10}")
    rows = (
        ("bare forward", before),
        ("capture", taken),
        ("extraction", mine),
        ("bare forward", after),
    )
    for name, one in rows:
        print(f"{name:16}{one['tok_s']:12,.0f}{one['ram_mib']:10,.0f}{one['gpu_mib']:10,.0f}")
    print(
        f"\ncapture / bare: {taken['tok_s'] / rate:.2f}; extraction / bare: "
        f"{mine['tok_s'] / rate:.2f}; written at {mine['write_mb_s']:,.0f} MB/s by "
        f"{mine['writers']:.0f} threads, held up by the disk {mine['wait']:.1%} of the time"
    )


if __name__ == "__main__":
    main()
