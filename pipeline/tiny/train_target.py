"""Trains the tiny target model from scratch and writes it with its figures and its card.

Run it with ``python -m eagle_tui.pipeline.tiny.train_target --out DIR --minutes M --device
cpu|cuda``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import torch
import transformers
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM

from . import MODEL_DIR
from .card import TrainingFacts, write_card
from .corpus import CorpusWorkers, load_tokenizer
from .evaluate import FamilyScore, fresh, score, solve
from .pool import DocumentPool, TrainingBatch
from .tokenizer import EOS_ID, MAX_LENGTH, PAD_ID, VOCAB_SIZE

SAMPLING_TEMPERATURE: Final = 0.7
MAX_FILE_BYTES: Final = 8_000_000
_TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_LOG_SECONDS: Final = 10.0
_BATCHES_PER_STEP: Final = 2
_FLOOR: Final = 0.02  # of the peak learning rate, at the end of the cosine


@dataclass(frozen=True, slots=True)
class Settings:
    """What a training run is asked for."""

    minutes: float
    device: torch.device
    seed: int
    workers: int
    learning_rate: float
    warmup_steps: int
    micro_batch_tokens: int
    micro_batches: int
    first_tokens: int  # that the pool must hold before the first step
    pool_tokens: int  # capacity for each row length


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model and what it took."""

    model: LlamaForCausalLM
    steps: int
    seconds: float
    tokens: int
    generated_tokens: int
    loss: float


def architecture() -> LlamaConfig:
    """The model's shape: 3.9 M parameters, 7.9 MB in bfloat16.

    Heads are 64 wide, wider than hidden_size / heads, because that is the narrowest width that all
    attention and rotary kernels of serving engines support; two key-value heads let two GPUs share
    the model.
    """
    return LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=EOS_ID,
        pad_token_id=PAD_ID,
    )


def train(settings: Settings, tokenizer_dir: Path, clock: Callable[[], float]) -> Trained:
    """Train for the given time; the learning rate follows the share of the time that has passed."""
    torch.manual_seed(settings.seed)
    model = LlamaForCausalLM(architecture()).train()
    Module.to(model, settings.device)
    optimizer = _optimizer(model, settings)
    pool = DocumentPool(settings.device, settings.pool_tokens, settings.seed)
    budget = settings.minutes * 60
    steps, tokens = 0, 0
    losses: deque[float] = deque(maxlen=100)
    with CorpusWorkers(tokenizer_dir, settings.seed, settings.workers) as workers:
        while pool.seen_tokens < settings.first_tokens:
            pool.add(workers.get())
        started = logged = clock()
        while (elapsed := clock() - started) < budget:
            # A few per step are more than the step uses; taking all would stall the device.
            for documents in islice(workers.pending(), _BATCHES_PER_STEP):
                pool.add(documents)
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * _schedule(settings, steps, elapsed / budget)
            batches = [
                pool.sample(settings.micro_batch_tokens) for _ in range(settings.micro_batches)
            ]
            losses.append(_step(model, optimizer, batches))
            tokens += sum(batch.ids.numel() for batch in batches)
            steps += 1
            if clock() - logged > _LOG_SECONDS:
                logged = clock()
                print(
                    f"{elapsed:6.0f} s  step {steps}  loss {statistics.fmean(losses):.4f}  "
                    f"{tokens / elapsed / 1e3:.0f} k tok/s  "
                    f"pool {pool.seen_tokens / 1e6:.1f} M  dropped {pool.dropped}",
                    flush=True,
                )
    return Trained(
        model=model,
        steps=steps,
        seconds=clock() - started,
        tokens=tokens,
        generated_tokens=pool.seen_tokens,
        loss=statistics.fmean(losses),
    )


def export(model: LlamaForCausalLM, tokenizer_dir: Path, out: Path) -> None:
    """Write the model in bfloat16 with its tokenizer; ValueError if the weights are too large to
    ship."""
    out.mkdir(parents=True, exist_ok=True)
    Module.to(Module.eval(model), torch.bfloat16)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=EOS_ID, pad_token_id=PAD_ID
    )
    model.save_pretrained(str(out))
    for name in _TOKENIZER_FILES:
        if (tokenizer_dir / name).resolve() != (out / name).resolve():
            shutil.copyfile(tokenizer_dir / name, out / name)
    size = (out / "model.safetensors").stat().st_size
    if size > MAX_FILE_BYTES:
        raise ValueError(
            f"model.safetensors has {size} bytes, more than the {MAX_FILE_BYTES} allowed."
        )


def measure(
    directory: Path, device: torch.device, per_family: int, seed: int, batch_size: int
) -> tuple[list[FamilyScore], list[FamilyScore]]:
    """Scores of the exported model on fresh instances: greedy, and sampled."""
    tokenizer = load_tokenizer(directory)
    model = AutoModelForCausalLM.from_pretrained(str(directory), dtype=torch.float32)
    Module.to(Module.eval(model), device)
    instances = fresh(per_family, seed)
    scores = []
    for temperature in (0.0, SAMPLING_TEMPERATURE):
        torch.manual_seed(seed)
        outputs = solve(model, tokenizer, instances, temperature=temperature, batch_size=batch_size)
        scores.append(score(outputs))
        for entry in scores[-1]:
            print(f"T={temperature:g} {entry}", flush=True)
    return scores[0], scores[1]


def _optimizer(model: LlamaForCausalLM, settings: Settings) -> torch.optim.AdamW:
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    fused = settings.device.type == "cuda"
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95), fused=fused)


def _schedule(settings: Settings, step: int, passed: float) -> float:
    """Share of the peak learning rate: linear warm-up by steps, then a cosine by time."""
    warmup = min(1.0, (step + 1) / settings.warmup_steps)
    return warmup * (_FLOOR + (1 - _FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, passed))))


def _step(
    model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, batches: list[TrainingBatch]
) -> float:
    optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device=model.device)
    for batch in batches:
        loss = _loss(model, batch) / len(batches)
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(total)


def _loss(model: LlamaForCausalLM, batch: TrainingBatch) -> Tensor:
    """Mean cross-entropy of the output tokens (nats). Logits are made only where one is
    predicted."""
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.device.type == "cuda"):
        hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        predicted = batch.targets[:, 1:]
        logits = model.lm_head(hidden[:, :-1][predicted])
    return cross_entropy(logits.float(), batch.ids[:, 1:][predicted])


def _facts(args: argparse.Namespace, settings: Settings, trained: Trained) -> TrainingFacts:
    device = settings.device.type
    name = torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} CPU cores"
    return TrainingFacts(
        command=(
            "python -m eagle_tui.pipeline.tiny.train_target --out DIR "
            f"--minutes {settings.minutes:g} --device {device} --seed {settings.seed} "
            f"--learning-rate {settings.learning_rate:g} --eval {args.eval} "
            f"--eval-seed {args.eval_seed}"
        ),
        seed=settings.seed,
        eval_seed=args.eval_seed,
        parameters=sum(weight.numel() for weight in trained.model.parameters()),
        steps=trained.steps,
        seconds=trained.seconds,
        tokens=trained.tokens,
        generated_tokens=trained.generated_tokens,
        loss=trained.loss,
        device=name,
        versions=(
            f"Python {platform.python_version()}, torch {torch.__version__}, "
            f"transformers {transformers.__version__}"
        ),
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the tiny target model.")
    parser.add_argument("--out", type=Path, required=True, help="directory for the model")
    parser.add_argument(
        "--tokenizer", type=Path, default=MODEL_DIR, help="directory of the tokenizer"
    )
    parser.add_argument(
        "--minutes", type=float, default=7.0, help="training time, evaluation not included"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument(
        "--eval", type=int, default=300, help="instances of each family to evaluate"
    )
    parser.add_argument("--eval-seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    """Command line: train, export, evaluate, write eval.json and the card."""
    args = _parse()
    large = args.device == "cuda"
    settings = Settings(
        minutes=args.minutes,
        device=torch.device(args.device),
        seed=args.seed,
        workers=args.workers,
        learning_rate=args.learning_rate,
        warmup_steps=200 if large else 20,
        micro_batch_tokens=49152 if large else 4096,
        micro_batches=4 if large else 2,
        first_tokens=10_000_000 if large else 200_000,
        pool_tokens=48_000_000 if large else 2_000_000,
    )
    torch.set_float32_matmul_precision("high")
    trained = train(settings, args.tokenizer, time.monotonic)
    export(trained.model, args.tokenizer, args.out)
    print(
        f"trained {trained.steps} steps, loss {trained.loss:.4f}, saved to {args.out}", flush=True
    )

    batch_size = 512 if large else 32
    greedy, sampled = measure(args.out, settings.device, args.eval, args.eval_seed, batch_size)
    facts = _facts(args, settings, trained)
    report = {
        "training": asdict(facts),
        "greedy": [asdict(entry) for entry in greedy],
        "sampled": {
            "temperature": SAMPLING_TEMPERATURE,
            "families": [asdict(entry) for entry in sampled],
        },
    }
    (args.out / "eval.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    write_card(args.out, facts, greedy, sampled, SAMPLING_TEMPERATURE)


if __name__ == "__main__":
    main()
