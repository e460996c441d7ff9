"""Run directories with a tiny random target and token shards as phase 3 leaves them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_tui.config import load_config
from eagle_tui.pipeline.shards import ShardWriter, TokenRow
from eagle_tui.pipeline.worker import main
from eagle_tui.rundir import jsonl, manifest
from eagle_tui.rundir.paths import RunDir

# More threads only get in each other's way with matrices as small as these.
torch.set_num_threads(1)

VOCABULARY = 128


def make_target(directory: Path, *, layers: int = 8, hidden: int = 64, seed: int = 0) -> Path:
    """A random Llama without a tokenizer; every layer changes the states a good deal."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.2,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    for name, weight in model.named_parameters():
        if "norm" in name:  # a norm of all ones would hide whether it was applied
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    model.save_pretrained(directory)
    return directory


@dataclass
class World:
    """A run directory, and what must come out of it."""

    run: RunDir
    model: Path
    rows: dict[str, TokenRow]
    """Id → row, of both splits."""
    training: dict[str, Any] = field(default_factory=dict)
    """Settings of [train]; with any, the run has that phase."""

    def settings(self, **extract: Any) -> None:
        """Write run.toml."""
        wanted = {"keep_free_bytes": 0, **extract}
        phases = ["merge", "extract", *(["train"] if self.training else [])]
        self.run.config.write_text(
            f'[run]\nname = "x"\nphases = {json.dumps(phases)}\n'
            f'[target]\nmodel = "{self.model}"\n'
            '[[server]]\nurl = "http://localhost:1"\n'
            '[[dataset]]\nname = "a"\nsource = "a.jsonl"\n'
            f"[extract]\n{_section(wanted)}[train]\n{_section(self.training)}"
        )
        load_config(self.run.config)

    def extract(self) -> int:
        """Run the phase in this process; gives its exit code."""
        from eagle_tui.pipeline.extract import body

        return main("extract", body, [str(self.run.root)])

    def train(self) -> int:
        """Run the next phase in this process; gives its exit code."""
        from eagle_tui.pipeline.train import body

        return main("train", body, [str(self.run.root)])

    def events(self, phase: str = "extract") -> list[dict[str, Any]]:
        """All events of the newest attempt."""
        logs = sorted((self.run.root / "events").glob(f"{phase}-*.jsonl"))
        return list(jsonl.rows(logs[-1])) if logs else []

    def notes(self, phase: str = "extract") -> str:
        """Everything that the newest attempt told."""
        return "\n".join(e["text"] for e in self.events(phase) if e["e"] == "note")

    def end(self, phase: str = "extract") -> tuple[str, str]:
        """Outcome and reason of the newest attempt."""
        event = [e for e in self.events(phase) if e["e"] == "end"][-1]
        return event["outcome"], event["reason"]


def _section(values: dict[str, Any]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def make_rows(count: int, seed: int = 0, longest: int = 60) -> dict[str, TokenRow]:
    """Rows of random tokens: a prompt, then an answer that is to be predicted."""
    random = np.random.default_rng(seed)
    rows: dict[str, TokenRow] = {}
    for number in range(count):
        length = int(random.integers(6, longest))
        prompt = int(random.integers(2, length - 2))
        mask = np.zeros(length, np.uint8)
        mask[prompt:] = 1
        ids = random.integers(0, VOCABULARY, length).astype(np.int32)
        rows[f"row-{number:04d}"] = TokenRow(ids, mask)
    return rows


def make_world(
    root: Path,
    count: int = 40,
    *,
    rows: dict[str, TokenRow] | None = None,
    layers: int = 8,
    merged_tokens: int = 500,
    training: dict[str, Any] | None = None,
    **extract: Any,
) -> World:
    """A run whose merge has finished; every tenth row is for validation."""
    root.mkdir(parents=True, exist_ok=True)
    model = make_target(root / "model", layers=layers)
    run = RunDir.at(root)
    rows = rows or make_rows(count)
    directory = run.phase("merge") / "shards-0001"
    directory.mkdir(parents=True)
    writers = {split: ShardWriter(directory, split, merged_tokens) for split in ("train", "val")}
    for number, (name, row) in enumerate(rows.items()):
        dataset = f"set{number % 3}"
        writers["val" if number % 10 == 9 else "train"].add(name, dataset, row)
    for writer in writers.values():
        writer.flush()
    paths = [path for writer in writers.values() for path in writer.paths]
    base = run.phase("merge")
    manifest.write(
        run,
        manifest.Manifest(
            phase="merge",
            made_at=0.0,
            attempt=1,
            inputs={},
            outputs={str(p.relative_to(base)): p.stat().st_size for p in paths},
        ),
    )
    world = World(run, model, rows, training or {})
    world.settings(**extract)
    return world
