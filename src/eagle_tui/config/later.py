"""Settings that are fine each by itself, and that a later phase would refuse after days. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eagle_tui.config.model import RunConfig


def refused_later(config: RunConfig) -> list[str]:
    """A sentence for each thing that a phase of this run will not be able to do."""
    return [
        *(_servers(config) if {"extract", "bench"} & set(config.run.phases) else ()),
        *(_rows(config) if "merge" in config.run.phases else ()),
        *(_training(config) if "train" in config.run.phases else ()),
    ]


def _servers(config: RunConfig) -> Iterator[str]:
    if any(server.engine == "sglang" and server.command for server in config.server):
        return
    needing = {
        'extract.backend = "sglang"': "extract" in config.run.phases
        and config.extract.backend == "sglang",
        'bench.engine = "sglang"': "bench" in config.run.phases and config.bench.engine == "sglang",
    }
    for setting, wanted in needing.items():
        if wanted:
            yield (
                f"{setting} starts a server with flags of its own: a [[server]] with engine "
                '"sglang" and a command is needed'
            )


def _rows(config: RunConfig) -> Iterator[str]:
    if not config.merge.include and any(d.kind == "prompts" for d in config.dataset):
        yield 'merge.include is empty, so no response is trained on; "complete" is the least'
    held_out = config.merge.val_fraction > 0 or any(d.hold_out for d in config.dataset)
    if "bench" in config.run.phases and not held_out:
        yield (
            "merge.val_fraction is 0 and no dataset has hold_out: the benchmark will have no "
            "prompts, and training cannot tell its best checkpoint"
        )


def _training(config: RunConfig) -> Iterator[str]:
    train = config.train
    if train.optimizer == "muon" and train.strategy == "fsdp2" and train.nproc > 1:
        yield (
            'train.optimizer = "muon" needs whole matrices, which train.strategy = "fsdp2" cuts: '
            'set the strategy to "ddp", or the optimizer to "adamw"'
        )
    cut = config.extract.max_tokens
    if "extract" in config.run.phases and cut is not None and cut < train.max_tokens:
        yield (
            f"extract.max_tokens = {cut} cuts rows of which train.max_tokens = {train.max_tokens} "
            "would read more"
        )
    served = max(config.bench.steps)
    if "bench" in config.run.phases and served > train.ttt_steps:
        yield (
            f"bench.steps goes up to {served}, but train.ttt_steps = {train.ttt_steps}: the "
            "drafter is never taught its later steps"
        )
