"""Measures how many fresh instances of each family the tiny model solves.

Run it with ``python -m eagle_tui.pipeline.tiny.evaluate [--model DIR] [--per-family N]
[--temperature T]``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

from . import MODEL_DIR
from .corpus import load_tokenizer, render_prompt
from .tasks import FAMILIES, Instance, Split, check, generate
from .tokenizer import EOS_ID, PAD_ID

CLOSER: Final = "</think>"
_SLACK: Final = 64  # tokens that an output may be longer than a quarter above its reference


@dataclass(frozen=True, slots=True)
class Output:
    """What the model wrote for one instance."""

    instance: Instance
    text: str
    tokens: int  # the end of the turn not counted
    finished: bool  # the model ended its turn itself
    solved: bool


@dataclass(frozen=True, slots=True)
class FamilyScore:
    """Figures of one family."""

    family: str
    instances: int
    solved: int
    accuracy: float
    unfinished: int
    tokens_mean: float
    tokens_p50: float
    tokens_p95: float
    tokens_max: int


def solve(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    instances: Sequence[Instance],
    *,
    temperature: float = 0.0,
    batch_size: int = 32,
) -> list[Output]:
    """Generate and check an answer for each instance, in the order of the instances.

    Greedy at temperature 0. Instances of similar length share a batch. An output is cut when it
    gets much longer than its batch's longest reference; a cut one counts as not solved.
    """
    lengths = [len(tokenizer.encode(instance.output())) for instance in instances]
    by_length = sorted(range(len(instances)), key=lengths.__getitem__)
    outputs: dict[int, Output] = {}
    for start in range(0, len(by_length), batch_size):
        chosen = by_length[start : start + batch_size]
        limit = lengths[chosen[-1]] * 5 // 4 + _SLACK
        batch = [instances[index] for index in chosen]
        written = _generate(model, tokenizer, batch, limit, temperature)
        outputs.update(zip(chosen, written, strict=True))
    return [outputs[index] for index in range(len(instances))]


def score(outputs: Sequence[Output]) -> list[FamilyScore]:
    """Figures of each family that the outputs hold, in the order of ``FAMILIES``."""
    return [_score(family, part) for family, part in _by_family(outputs)]


def fresh(per_family: int, seed: int, split: Split = "eval") -> list[Instance]:
    """Different instances of every family that no training run has seen."""
    return [
        instance
        for family in FAMILIES
        for instance in islice(generate(family, seed, split), per_family)
    ]


def _generate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    instances: Sequence[Instance],
    limit: int,
    temperature: float,
) -> list[Output]:
    prompts = [tokenizer.encode(render_prompt(tokenizer, instance)) for instance in instances]
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD_ID] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    sampling = (
        {"do_sample": True, "temperature": temperature} if temperature > 0 else {"do_sample": False}
    )
    generate_ids: Any = model.generate  # its type does not survive the mixins of transformers
    with torch.inference_mode():
        generated = generate_ids(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=limit,
            eos_token_id=EOS_ID,
            pad_token_id=PAD_ID,
            **sampling,
        )
    rows: list[list[int]] = generated[:, width:].tolist()
    return [_output(tokenizer, *pair) for pair in zip(instances, rows, strict=True)]


def _output(tokenizer: PreTrainedTokenizerBase, instance: Instance, row: list[int]) -> Output:
    finished = EOS_ID in row
    ids = row[: row.index(EOS_ID)] if finished else row
    text = str(tokenizer.decode(ids))
    _, closer, content = text.partition(CLOSER)
    solved = finished and bool(closer) and check(instance, content.strip())
    return Output(instance, text, len(ids), finished, solved)


def _by_family(outputs: Sequence[Output]) -> Iterator[tuple[str, list[Output]]]:
    for family in FAMILIES:
        part = [output for output in outputs if output.instance.family == family]
        if part:
            yield family, part


def _score(family: str, outputs: Sequence[Output]) -> FamilyScore:
    tokens = sorted(output.tokens for output in outputs)
    solved = sum(output.solved for output in outputs)
    return FamilyScore(
        family=family,
        instances=len(outputs),
        solved=solved,
        accuracy=round(solved / len(outputs), 4),
        unfinished=sum(not output.finished for output in outputs),
        tokens_mean=round(statistics.fmean(tokens), 1),
        tokens_p50=statistics.median(tokens),
        tokens_p95=tokens[(len(tokens) - 1) * 95 // 100],
        tokens_max=tokens[-1],
    )


def main() -> None:
    """Command line: evaluate a model directory and print the figures, or JSON."""
    parser = argparse.ArgumentParser(description="Evaluate the tiny model on fresh instances.")
    parser.add_argument("--model", type=Path, default=MODEL_DIR, help="model directory")
    parser.add_argument("--per-family", type=int, default=50, help="instances of each family")
    parser.add_argument("--seed", type=int, default=1, help="seed of the instances")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--failures", type=int, default=0, help="show this many unsolved ones")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()

    tokenizer = load_tokenizer(args.model)
    model = AutoModelForCausalLM.from_pretrained(str(args.model), dtype=torch.float32)
    model.to(args.device).eval()
    torch.manual_seed(args.seed)
    outputs = solve(
        model,
        tokenizer,
        fresh(args.per_family, args.seed),
        temperature=args.temperature,
        batch_size=args.batch_size,
    )
    scores = score(outputs)
    if args.json:
        print(json.dumps([asdict(entry) for entry in scores], indent=2))
    else:
        for entry in scores:
            print(
                f"{entry.family:8} {entry.solved:4}/{entry.instances:<4} {entry.accuracy:6.1%}  "
                f"tokens mean {entry.tokens_mean:.0f} p50 {entry.tokens_p50:.0f} "
                f"p95 {entry.tokens_p95:.0f} max {entry.tokens_max}  unfinished {entry.unfinished}"
            )
    for output in [output for output in outputs if not output.solved][: args.failures]:
        # repr, so that nothing the model wrote reaches the terminal as control characters
        asked = output.instance.messages[-1].content
        print(f"{output.instance.family}/{output.instance.kind}: {asked!r}")
        print(f"  wrote {output.text!r}\n  wanted {output.instance.answer!r}")


if __name__ == "__main__":
    main()
