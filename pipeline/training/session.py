"""One rank's part of phase 5: gather, begin or go on, train, and on the first rank export."""

from __future__ import annotations

from typing import Final

import torch

from eagle_tui.config.drafter import TrainSection
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import manifest
from eagle_tui.rundir.desired import Watch

from ..drafter.config import DrafterError
from ..worker import Failed, Refused, Stopped, Worker
from .checkpoints import CheckpointError, Checkpoints, State
from .feed import Feed, Whole
from .loop import Loop, Setting
from .model import TrainingModel
from .optimizers import NoMuon, Optimizers
from .publish import publish
from .ranks import NoDevice, Ranks, join, spread
from .report import Reporter
from .rolling import Rolling
from .setup import Material, agreement, doubt, fresh_drafter, gather, target_head
from .sources import BadRow

PHASE: Final = "train"


class Finish:
    """Looks whether the operator wants the phase to end with what is there."""

    def __init__(self, worker: Worker, *, look: bool) -> None:
        self._watch = Watch(worker.run.desired, worker.config) if look else None

    def __call__(self) -> bool:
        if self._watch is None:
            return False
        self._watch.follow()
        return PHASE in self._watch.desired.finish


def train(worker: Worker, *, quiet: bool = False) -> None:
    """Be one rank of the training. `quiet`: not the first, so writes neither events nor manifest.
    Refused, Failed or Stopped as a phase's body."""
    try:
        with join(worker.config.train.device) as ranks:
            _train(worker, ranks, quiet=quiet)
    except (NoDevice, NoMuon, BadRow, DrafterError) as error:
        raise Refused(str(error)) from error
    except CheckpointError as error:
        raise Failed(str(error)) from error
    except torch.OutOfMemoryError as error:
        live = worker.config.extract.mode == "online"
        raise Failed(
            f"The GPU's memory is full ({error}). Lower train.batch_tokens, or spread the training "
            'over more ranks with train.strategy = "fsdp2".'
            + (' Or give the target GPUs of its own: extract.device = "cuda:N".' if live else "")
        ) from error


def _train(worker: Worker, ranks: Ranks, *, quiet: bool) -> None:
    settings = worker.config.train
    inputs = manifest.inputs_of(worker.config, worker.run, PHASE)
    report = Reporter(None if quiet else worker.log, settings.epochs)
    material = gather(worker.config, worker.run, ranks)
    _describe(material, report)
    _compare_steps(worker.config, report)
    checkpoints = Checkpoints(worker.run.phase(PHASE) / "checkpoints")
    setting, state = _prepare(worker, material, ranks, checkpoints, report)
    finish = Finish(worker, look=ranks.first)
    feed = _feed(worker, material, ranks, report, finish)
    if text := doubt(agreement(material, setting.head, ranks.device)):
        report.note(text, warning=True)
    ending = Loop(setting, state, report, worker.stop, finish, feed).run()
    if away := material.rows.away:
        report.note(f"{len(away):,} rows were put away", warning=True)
    if ending.stopped:
        raise Stopped
    if not ending.state.step:
        raise Refused(
            "The order to end this phase came before its first step, so there is no drafter to "
            "export. Take the order back, and run the phase again."
        )
    if ranks.first:
        publish(worker, material, checkpoints, ending, inputs, report)
    ranks.barrier()


def _feed(
    worker: Worker, material: Material, ranks: Ranks, report: Reporter, finish: Finish
) -> Feed:
    rows = material.rows
    if rows.window is None or rows.metadata is None:
        return Whole()
    return Rolling(
        worker,
        ranks,
        rows.train,
        rows.window,
        rows.metadata,
        material.identity,
        report,
        finish,
    )


def _describe(material: Material, report: Reporter) -> None:
    table, vocabulary = material.train, material.vocabulary
    left_out = table.skipped + material.val.skipped
    report.note(
        f"{len(table):,} rows of {int(table.lengths.sum()):,} tokens to train on, "
        f"{len(material.val):,} held out"
        + (f"; {left_out:,} with fewer than 2 supervised tokens left out" if left_out else "")
    )
    report.note(
        f"draft vocabulary of {len(vocabulary.ids):,} of {vocabulary.size:,} tokens covers "
        f"{vocabulary.coverage:.2%} of the supervised tokens",
        warning=vocabulary.coverage < 0.95,
    )


def _compare_steps(config: RunConfig, report: Reporter) -> None:
    served = max(config.bench.steps)
    if "bench" in config.run.phases and served > config.train.ttt_steps:
        report.note(
            f"train.ttt_steps = {config.train.ttt_steps}, but bench.steps goes up to {served}: the "
            "drafter was never taught its later steps, which will hardly be accepted",
            warning=True,
        )


def _prepare(
    worker: Worker,
    material: Material,
    ranks: Ranks,
    checkpoints: Checkpoints,
    report: Reporter,
) -> tuple[Setting, State]:
    """Model and optimizer on the device, as the last checkpoint left them or new."""
    settings = worker.config.train
    dtype = _dtype(settings, ranks.device)
    drafter = fresh_drafter(material, settings.seed)
    found = _resumable(checkpoints, material, report, ranks)
    if found is not None:
        drafter.load_state_dict(found[1])
    drafter = drafter.to(ranks.device)
    drafter.set_embedding(material.target.embedding(), dtype)
    head = target_head(material, ranks.device, dtype, compiled=settings.compile)
    model = TrainingModel(drafter, head, settings.ttt_steps, dtype)
    if settings.compile and not (ranks.world > 1 and settings.strategy == "fsdp2"):
        # FSDP2 puts other parameters in place at every step, for which it would compile anew.
        drafter.midlayer.compile_rest()
    wrapped = spread(model, ranks, settings.strategy)
    optimizers = Optimizers(drafter, settings)
    if found is not None:
        optimizers.load(found[2])
    state = found[0] if found else _beginning(material)
    return (
        Setting(
            settings,
            ranks,
            worker.clock,
            drafter,
            wrapped,
            optimizers,
            head,
            material.train,
            material.val,
            checkpoints,
            walk_steps(worker.config),
        ),
        state,
    )


def walk_steps(config: RunConfig) -> int:
    """Draft steps of the simulated accept length: those of the benchmark, as far as trained."""
    return min(config.bench.steps[0], config.train.ttt_steps)


def _dtype(settings: TrainSection, device: torch.device) -> torch.dtype:
    half = settings.dtype == "bfloat16" and device.type == "cuda"
    return torch.bfloat16 if half else torch.float32


def _beginning(material: Material) -> State:
    return State(epoch=0, packs=0, step=0, tokens=0, rows=0, identity=material.identity)


def _resumable(
    checkpoints: Checkpoints, material: Material, report: Reporter, ranks: Ranks
) -> tuple[State, dict[str, torch.Tensor], dict[str, torch.Tensor]] | None:
    """The last checkpoint, if its weights fit what is to be trained now; else it is removed."""
    found = checkpoints.last()
    ranks.barrier()
    if found is None:
        return None
    before, now = found[0].identity, material.identity
    changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    if not changed:
        return found
    report.note(
        f"the checkpoint at step {found[0].step:,} cannot be continued, training begins afresh: "
        f"changed since: {', '.join(changed)}",
        warning=True,
    )
    if ranks.first:
        checkpoints.clear()
    return None
