"""A tiny target, drafters for it, and a run directory whose phases up to training have finished."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_tui.pipeline.benchmark.target import CachedTarget
from eagle_tui.pipeline.drafter.attention import Documents
from eagle_tui.pipeline.drafter.config import DrafterConfig
from eagle_tui.pipeline.drafter.export import write_export
from eagle_tui.pipeline.drafter.module import Drafter
from eagle_tui.pipeline.drafter.target_weights import TargetWeights
from eagle_tui.pipeline.drafter.ttt import Rows, draft_states
from eagle_tui.pipeline.shards import ShardWriter, TokenRow
from eagle_tui.rundir import manifest
from eagle_tui.rundir.paths import RunDir

VOCABULARY = 48
LAYERS = (1, 2, 3)
EOS = 0


def make_target(directory: Path, vocabulary: int = VOCABULARY) -> Path:
    """A random Llama of four layers. Its text is nonsense, and depends mostly on the last token."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.12,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=EOS,
    )
    model = LlamaForCausalLM(config)
    torch.nn.init.normal_(model.model.embed_tokens.weight)
    torch.nn.init.normal_(model.lm_head.weight)
    model.save_pretrained(directory)
    return directory


def load(directory: Path) -> CachedTarget:
    """The target as the decoder takes it."""
    model = LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    return CachedTarget(model.requires_grad_(False), LAYERS)


def make_drafter(target: Path, draft_vocabulary: int | None = None, seed: int = 0) -> Drafter:
    """A drafter with random weights."""
    weights = TargetWeights.open(target)
    size = draft_vocabulary or weights.vocab_size
    config = DrafterConfig.for_target(weights.config, LAYERS, size, dtype="float32")
    drafter = Drafter(config)
    drafter.initialise(seed)
    drafter.set_embedding(weights.embedding())
    if config.maps_vocabulary:
        random = np.random.default_rng(seed)
        ids = np.sort(random.choice(weights.vocab_size, size, replace=False))
        drafter.set_vocabulary(torch.from_numpy(ids))
    return drafter.requires_grad_(False)


def train(drafter: Drafter, target: CachedTarget, rounds: int = 40) -> Drafter:
    """Teach a drafter three steps on the target's own greedy text."""
    drafter.requires_grad_(True)
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=3e-3)
    random = np.random.default_rng(3)
    for _ in range(rounds):
        start = [int(i) for i in random.integers(1, VOCABULARY, 3)]
        ids, (logits, aux) = list(start), target.begin(start)
        states = [aux]
        for _ in range(40):
            ids.append(int(logits.argmax()))
            rows, aux = target.extend(ids[-1:])
            states.append(aux)
            logits = rows[-1]
        x, a = torch.tensor(ids), torch.cat(states).clone()
        for _ in range(2):
            docs = Documents.of([len(x)])
            y = draft_states(drafter, Rows(x, a, torch.arange(len(x)), docs), 3)
            loss = sum(
                torch.nn.functional.cross_entropy(drafter.logits(y[j, : -2 - j]), x[2 + j :])
                for j in range(3)
            )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return drafter.requires_grad_(False)


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Random prompts."""
    random = np.random.default_rng(seed)
    return [
        [int(i) for i in random.integers(1, VOCABULARY, random.integers(2, 12))]
        for _ in range(count)
    ]


def export(drafter: Drafter, directory: Path) -> None:
    """As phase 5 leaves it."""
    config = replace(drafter.config, dtype="float32")
    write_export(directory, config, drafter.state_dict())


def make_run(root: Path, drafter: Drafter, target: Path, **bench: Any) -> RunDir:
    """A run with validation rows of two datasets and an exported drafter."""
    run = RunDir.at(root)
    root.mkdir(parents=True)
    lines = "".join(f"{k} = {json.dumps(v)}\n" for k, v in bench.items())
    run.config.write_text(
        '[run]\nname = "tiny"\nphases = ["merge", "train", "bench"]\n'
        f'[target]\nmodel = "{target}"\n'
        '[[server]]\nurl = "http://localhost:1"\n'
        '[[dataset]]\nname = "a"\nsource = "a.jsonl"\n[[dataset]]\nname = "b"\nsource = "b.jsonl"\n'
        f"[bench]\n{lines}"
    )
    base = run.phase("merge")
    writer = ShardWriter(base / "shards-0001", "val", 1000)
    for number, ids in enumerate(prompts(12, seed=9)):
        row = np.array([*ids, 5, 6, EOS], np.int32)
        mask = np.zeros(len(row), np.uint8)
        mask[len(ids) :] = 1
        writer.add(f"v{number}", "ab"[number % 2], TokenRow(row, mask))
    writer.flush()
    outputs = {str(p.relative_to(base)): p.stat().st_size for p in writer.paths}
    finished(run, "merge", outputs=outputs, counts={"val": {"rows": 12}})
    export(drafter, run.phase("train") / "export")
    finished(run, "train", counts={"accept": 1.5})
    return run


def finished(run: RunDir, phase: str, **more: Any) -> None:
    """A manifest."""
    made = manifest.Manifest(phase=phase, made_at=0.0, attempt=1, inputs={}, **more)
    manifest.write(run, made)
