"""A run whose extraction is done, for a target of a few matrices and a made-up language."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_tui.clock import SystemClock
from eagle_tui.config import load_config
from eagle_tui.pipeline.extraction.shardfile import write_shard
from eagle_tui.pipeline.training.session import PHASE, train
from eagle_tui.pipeline.worker import Worker
from eagle_tui.rundir import atomic, jsonl, manifest
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.paths import RunDir

# More threads only get in each other's way with matrices as small as these.
torch.set_num_threads(1)

WIDTH, VOCABULARY, EOS = 32, 48, 2
LAYERS = "2,4,5"
PROMPT = 4


@dataclass(frozen=True)
class Target:
    """The tensors of the target, and the language: each token has one usual successor."""

    embedding: Tensor
    head: Tensor
    successor: Tensor

    @classmethod
    def make(cls) -> Target:
        random = torch.Generator().manual_seed(11)
        shape = (VOCABULARY, WIDTH)
        return cls(
            torch.randn(shape, generator=random),
            torch.randn(shape, generator=random),
            torch.randperm(VOCABULARY, generator=random),
        )

    def text(self, length: int, random: torch.Generator) -> Tensor:
        """int32 [length]: usual successors, now and then another token."""
        ids = [int(torch.randint(VOCABULARY, (1,), generator=random))]
        while len(ids) < length:
            usual = float(torch.rand(1, generator=random)) < 0.95
            other = int(torch.randint(VOCABULARY, (1,), generator=random))
            ids.append(int(self.successor[ids[-1]]) if usual else other)
        return torch.tensor(ids, dtype=torch.int32)

    def states(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """aux [T, 3*Ht] and last [T, Ht]: the head finds the usual successor in the last state."""
        following = self.successor[ids.long()]
        last = self.head[following] * 0.5
        aux = torch.cat((self.embedding[ids.long()], self.embedding[following], last), dim=1)
        return aux, last

    def write(self, path: Path) -> None:
        """As a checkpoint directory."""
        path.mkdir(parents=True)
        config = {
            **{"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
            **{"hidden_size": WIDTH, "num_attention_heads": 4, "num_key_value_heads": 2},
            **{"head_dim": 8, "intermediate_size": 48, "num_hidden_layers": 8},
            **{"vocab_size": VOCABULARY, "max_position_embeddings": 128, "rms_norm_eps": 1e-6},
            **{"rope_theta": 10000.0, "eos_token_id": EOS, "tie_word_embeddings": False},
        }
        atomic.write_json(path / "config.json", config)
        tensors = {
            "model.embed_tokens.weight": self.embedding,
            "lm_head.weight": self.head,
            "model.norm.weight": torch.ones(WIDTH),
        }
        save_file(tensors, path / "model.safetensors")


@dataclass
class World:
    """A run."""

    root: Path
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> RunDir:
        return RunDir.at(self.root)

    def configure(self, **train: Any) -> None:
        """Write run.toml; `train` changes its [train]."""
        self.settings.update(train)
        lines = [
            *("[run]", 'name = "t"', 'phases = ["merge", "extract", "train"]'),
            *("[target]", f'model = "{self.root / "target"}"'),
            *("[[server]]", 'url = "http://127.0.0.1:9"'),
            *("[[dataset]]", 'name = "a"', 'source = "a.jsonl"'),
            "[train]",
            *(f"{key} = {json.dumps(value)}" for key, value in self.settings.items()),
        ]
        self.run.config.write_text("\n".join(lines) + "\n")

    def extract(
        self,
        lengths: list[int],
        *,
        val: int = 4,
        mask: bool = True,
        metadata: dict[str, str] | None = None,
        seed: int = 0,
    ) -> None:
        """Write hidden states of texts of these lengths, in two shards, and `val` held-out ones."""
        random = torch.Generator().manual_seed(seed)
        outputs: dict[str, int] = {}
        half = -(-len(lengths) // 2)
        for name, part in (
            ("train-00000", lengths[:half]),
            ("train-00001", lengths[half:]),
            ("val-00000", [20] * val),
        ):
            if part:
                outputs |= self._shard(name, part, random, mask, metadata)
        manifest.write(
            self.run,
            manifest.Manifest(
                phase="extract",
                made_at=0.0,
                attempt=1,
                inputs={"seed": str(seed)},
                outputs=outputs,
            ),
        )

    def _shard(
        self,
        name: str,
        lengths: list[int],
        random: torch.Generator,
        mask: bool,
        metadata: dict[str, str] | None,
    ) -> dict[str, int]:
        target = Target.make()
        pieces: dict[str, list[Tensor]] = {
            key: [] for key in ("input_ids", "loss_mask", "aux", "last")
        }
        index = []
        for number, length in enumerate(lengths):
            ids = target.text(length, random)
            aux, last = target.states(ids)
            flags = (torch.arange(length) >= PROMPT).to(torch.uint8) * int(mask)
            for key, tensor in zip(pieces, (ids, flags, aux, last), strict=True):
                pieces[key].append(tensor)
            index.append(
                {
                    **{"id": f"{name}:{number}", "dataset": "ab"[number % 2]},
                    **{"tokens": length, "supervised": int(flags.sum())},
                }
            )
        offsets = torch.tensor([0, *lengths]).cumsum(0)
        path = self.run.phase("extract") / "shards-0001" / f"{name}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {"layers": LAYERS, "norm": "post", "mask": "unshifted", **(metadata or {})}
        write_shard(path, {**pieces, "offsets": [offsets]}, told, index)
        return {str(path.relative_to(self.run.phase("extract"))): path.stat().st_size}

    def worker(self, attempt: int = 1) -> Worker:
        """A worker of the phase, as `worker.main` would make it."""
        clock = SystemClock()
        log = WorkerLog(self.run.events(PHASE, attempt), clock)
        return Worker(self.run, load_config(self.run.config), log, clock, PHASE, attempt)

    def train(self, attempt: int = 1) -> list[dict[str, Any]]:
        """Train in this process to the end; gives the events."""
        worker = self.worker(attempt)
        try:
            train(worker)
        finally:
            worker.log.close()
        return self.events(attempt)

    def events(self, attempt: int = 1) -> list[dict[str, Any]]:
        return list(jsonl.rows(self.run.events(PHASE, attempt)))

    def notes(self, attempt: int = 1) -> str:
        return "\n".join(e["text"] for e in self.events(attempt) if e["e"] == "note")

    @property
    def drafter(self) -> Path:
        return self.run.phase(PHASE)

    def weights(self, which: str = "last") -> dict[str, Tensor]:
        """Tensors of a checkpoint."""
        index = atomic.read_json(self.drafter / "checkpoints" / "index.json")
        assert index is not None
        return load_file(self.drafter / "checkpoints" / index[which] / "model.safetensors")

    def state(self) -> dict[str, Any]:
        """state.json of the last checkpoint."""
        root = self.drafter / "checkpoints"
        index = atomic.read_json(root / "index.json")
        assert index is not None
        body = atomic.read_json(root / index["last"] / "state.json")
        assert isinstance(body, dict)
        return body


def make_world(root: Path, **train: Any) -> World:
    """A run with a target, not yet extracted, and settings that train in a second."""
    world = World(root.resolve())
    world.root.mkdir(parents=True, exist_ok=True)
    Target.make().write(world.root / "target")
    world.configure(
        **{
            **{"ttt_steps": 3, "epochs": 2, "batch_tokens": 80, "max_tokens": 64},
            **{"learning_rate": 3e-3, "draft_vocab": 40, "device": "cpu", "dtype": "float32"},
            **{"validate_steps": 8, "checkpoint_s": 3600.0},
            **train,
        }
    )
    return world


def distance(one: dict[str, Tensor], two: dict[str, Tensor]) -> float:
    """Largest difference of any weight."""
    assert one.keys() == two.keys()
    return max(float((one[name].float() - two[name].float()).abs().max()) for name in one)
