"""The sections of run.toml for phases 4 to 6: extraction, training, benchmark."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from eagle_tui.config.section import Section


class ExtractSection(Section):
    """Phase 4: run the target once over every row and keep its hidden states."""

    backend: Literal["transformers", "sglang"] = "transformers"
    """What runs the target: `transformers` (any causal model), or SGLang's own aux hidden states
    (0.5.23 or newer)."""
    mode: Literal["stored", "rolling", "online"] = "stored"
    """`stored`: all states go to disk before training begins. `rolling`: training extracts a
    window of rows, learns from it, deletes it, and goes on with the next, so the disk holds no more
    than a window; every epoch extracts again. `online`: the target runs beside the training and
    nothing is stored. In the last two this phase only checks, and stores the held-out rows
    (`rolling`)."""
    rolling_window_gb: float = Field(default=100.0, gt=0)
    """Disk that a window may take in `rolling` mode, in GB (10^9 bytes)."""
    layers: list[Annotated[int, Field(ge=1)]] | None = None
    """Three indices of hidden states, ascending: index i is the input of layer i, which is the
    output of layer i-1. Unset: 2, N/2 and N-3 of a model with N layers."""
    dtype: Literal["bfloat16", "float16", "float8", "float32"] = "bfloat16"
    """Type in which states are stored; float8 halves the disk at some loss."""
    batch_tokens: int = Field(default=16_384, ge=16)
    """Tokens of a batch, padding included. Rows of like length go together."""
    shard_tokens: int = Field(default=200_000, ge=1)
    """Tokens after which a new shard begins."""
    samples: int | None = Field(default=None, ge=1)
    """Use at most this many training rows. Unset: all."""
    max_tokens: int | None = Field(default=None, ge=16)
    """Longer rows are cut: training reads no more than train.max_tokens of a row, and the states of
    the rest only cost time and disk. Unset: whole rows."""
    nproc: int = Field(default=1, ge=1, le=64)
    """Processes (ranks) on this machine; more than one are started by torchrun. While training
    extracts (`rolling`, `online`), its own ranks do."""
    device: str = "auto"
    """Where the target runs: `auto`, `cpu`, `cuda`; `cuda:4` gives the ranks the GPUs 4, 5, …"""
    keep_free_bytes: int = Field(default=5 << 30, ge=0)
    """Disk that must stay free; a run that would need it is refused before the first byte."""
    max_bad_fraction: float = Field(default=0.01, ge=0, le=1)
    """Share of rows with NaN or wrong shapes above which the phase fails."""

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,2})?", device):
            raise ValueError('give "auto", "cpu", "cuda", or "cuda:N" for the first GPU')
        return device

    @field_validator("layers")
    @classmethod
    def _three_ascending(cls, layers: list[int] | None) -> list[int] | None:
        if layers is not None and (len(layers) != 3 or layers != sorted(set(layers))):
            raise ValueError("give three different indices, the smallest first")
        return layers

    @model_validator(mode="after")
    def _training_can_extract(self) -> Self:
        if self.mode != "stored" and self.backend == "sglang":
            raise ValueError(f'mode = "{self.mode}" needs backend = "transformers"')
        return self


class TrainSection(Section):
    """Phase 5: train the drafter."""

    ttt_steps: int = Field(default=7, ge=1, le=16)
    """Steps of the training-time test; at least the draft steps with which it will serve."""
    step_decay: float = Field(default=0.8, gt=0, le=1)
    """Weight of step j in the loss is step_decay to the power of j."""
    epochs: int = Field(default=10, ge=1)
    """Passes over the training rows."""
    max_steps: int | None = Field(default=None, ge=1)
    """Stop after this many optimizer steps. Unset: by epochs."""
    batch_tokens: int = Field(default=8_192, ge=16)
    """Tokens of a packed batch on each rank."""
    max_tokens: int = Field(default=4_096, ge=16)
    """Longer rows are cut."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Peak learning rate."""
    warmup_fraction: float = Field(default=0.015, ge=0, lt=1)
    """Share of the steps in which the rate rises; then it falls along a cosine."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay of matrices."""
    clip: float = Field(default=0.5, gt=0)
    """Largest gradient norm."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon` for matrices (AdamW for the rest), or AdamW for all."""
    draft_vocab: int | None = Field(default=32_000, ge=16)
    """Tokens that the drafter can propose, the most frequent ones. Unset, or not smaller than the
    target's vocabulary: all of it."""
    intermediate_size: int | None = Field(default=None, ge=1)
    """Width of the drafter's MLP. Unset: the target's."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type of the forward pass; master weights are float32. On a CPU float32 is used."""
    strategy: Literal["ddp", "fsdp2"] = "ddp"
    """How more than one rank share the work."""
    nproc: int = Field(default=1, ge=1, le=64)
    """Processes (ranks) on this machine; more than one are started by torchrun."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the drafter is trained."""
    compile: bool = False
    """Compile the drafter's forward pass; pays on a GPU after some minutes."""
    seed: int = Field(default=0, ge=0)
    """Seed of initial weights and of the order of rows."""
    checkpoint_s: float = Field(default=300.0, gt=0)
    """Seconds between two checkpoints; what a kill costs."""
    validate_steps: int = Field(default=200, ge=1)
    """Optimizer steps between two validations on the held-out rows."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many validations without a better one. Unset: never."""


class BenchSection(Section):
    """Phase 6: serve with and without the drafter, and compare."""

    engine: Literal["reference", "sglang"] = "reference"
    """`reference`: our own small speculative decoder, for small targets. `sglang`: the server of
    run.toml, launched without and with the drafter in turn."""
    steps: list[Annotated[int, Field(ge=1, le=16)]] = [3]
    """Draft steps to try."""
    topk: list[Annotated[int, Field(ge=1, le=16)]] = [1]
    """Branches per draft step to try (SGLang)."""
    draft_tokens: list[Annotated[int, Field(ge=2, le=256)]] = []
    """Draft tokens per verification to try (SGLang). Empty: what steps and topk give."""
    concurrency: list[Annotated[int, Field(ge=1, le=4096)]] = [1]
    """Requests at a time to try (SGLang)."""
    prompts: int = Field(default=20, ge=1)
    """Held-out prompts of each dataset."""
    max_new_tokens: int = Field(default=256, ge=8)
    """Longest answer in tokens."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature; 0 is greedy, and then the output must be the same with the drafter."""

    @model_validator(mode="after")
    def _something_to_try(self) -> Self:
        if not self.steps or not self.topk or not self.concurrency:
            raise ValueError("steps, topk and concurrency must each name at least one value")
        return self
