"""What a training is made from: rows, target, vocabulary, fresh drafter, or why it cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch

from eagle_tui.config.drafter import TrainSection
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import manifest
from eagle_tui.rundir.paths import RunDir

from ..drafter.config import DrafterConfig, DrafterError
from ..drafter.loss import TargetHead
from ..drafter.module import Drafter
from ..drafter.target_weights import TargetWeights
from ..drafter.vocabulary import DraftVocabulary, choose, count_tokens
from ..hidden import HiddenError
from ..shards import ShardError
from ..targets import resolve_model
from ..worker import Refused
from .data import Table
from .ranks import Ranks
from .rows import Rows, open_rows

_SAMPLE_ROWS: Final = 8
_LEAST_AGREEMENT: Final = 0.3
"""Share of tokens that the target's stored states must predict of its own text, or be in doubt."""


@dataclass(frozen=True)
class Material:
    """All that a training is made from; equal on every rank."""

    config: DrafterConfig
    vocabulary: DraftVocabulary
    target: TargetWeights
    rows: Rows
    identity: dict[str, str]
    """Fingerprints of what must be the same for a checkpoint to be continued."""

    @property
    def train(self) -> Table:
        return self.rows.train

    @property
    def val(self) -> Table:
        return self.rows.val


def gather(config: RunConfig, run: RunDir, ranks: Ranks) -> Material:
    """Read what is there. Refused, with the reason, when it cannot be trained on."""
    settings = config.train
    try:
        target = TargetWeights.open(resolve_model(config, run))
        rows = open_rows(config, run, target, ranks)
    except (HiddenError, DrafterError, ShardError) as error:
        raise Refused(str(error)) from error
    train = rows.train
    if not len(train):
        example = f", for example {train.example}" if train.example else ""
        raise Refused(
            f"No row of the extracted training data has a token to learn: {train.skipped:,} rows "
            f"have fewer than 2 supervised ones{example}. Look at the loss mask: does merge find "
            "the answers, and is train.max_tokens longer than the prompts?"
        )
    try:
        counts = count_tokens(train.tokens(), target.vocab_size)
        vocabulary = choose(counts, settings.draft_vocab, target.eos_ids())
        drafter = DrafterConfig.for_target(
            target.config,
            rows.layers,
            len(vocabulary.ids),
            intermediate_size=settings.intermediate_size,
            dtype=settings.dtype,
        )
    except ValueError as error:
        raise Refused(f"The drafter cannot be made: {error}.") from error
    return Material(
        drafter, vocabulary, target, rows, _identity(run, settings, drafter, vocabulary)
    )


def _identity(
    run: RunDir, settings: TrainSection, config: DrafterConfig, vocabulary: DraftVocabulary
) -> dict[str, str]:
    extracted = manifest.read(run, "extract")
    made: Any = [extracted.inputs, extracted.outputs] if extracted else None
    order = settings.model_dump(mode="json", include={"seed", "batch_tokens", "max_tokens"})
    order["rows"] = "by id"
    return {
        "hidden states": manifest.fingerprint(made),
        "draft vocabulary": manifest.fingerprint(vocabulary.ids.tolist()),
        "shape of the drafter": manifest.fingerprint(config.to_json()),
        "order of the rows": manifest.fingerprint(order),
        "optimizer": settings.optimizer,
    }


def fresh_drafter(material: Material, seed: int) -> Drafter:
    """A drafter with new weights: head and final norm are the target's, cut to the vocabulary."""
    drafter = Drafter(material.config)
    kept = torch.from_numpy(material.vocabulary.ids)
    try:
        norm = material.target.final_norm().float()
    except DrafterError:
        norm = None  # a target whose norm has another name, or is of another kind
    drafter.initialise(seed, material.target.head()[kept].float(), norm)
    if material.config.maps_vocabulary:
        drafter.set_vocabulary(kept)
    return drafter


def target_head(
    material: Material, device: torch.device, dtype: torch.dtype, *, compiled: bool = False
) -> TargetHead:
    """The target's head on the device."""
    factor, cap = material.target.logits_of()
    kept = torch.from_numpy(material.vocabulary.ids).to(device)
    matrix = material.target.head().to(device, dtype)
    return TargetHead(matrix, kept, factor=factor, cap=cap, compiled=compiled)


def agreement(material: Material, head: TargetHead, device: torch.device) -> float:
    """Share of the supervised tokens of some rows that the target's final states predict. A low one
    means another target, a wrong norm, or text that the target did not write."""
    table = material.val if material.rows.window else material.train
    if not len(table):
        return 1.0
    batch = table.batch(list(range(min(_SAMPLE_ROWS, len(table))))).to(device)
    _, favourite = head.survey(batch.last)
    right = total = start = 0
    for (rows, _), count in zip(batch.rows.docs.spans(), batch.supervised, strict=True):
        ids, depths = batch.rows.ids[rows], batch.depths[start : start + count]
        inside = depths + 1 < len(ids)
        right += int((favourite[start : start + count][inside] == ids[depths[inside] + 1]).sum())
        total += int(inside.sum())
        start += count
    return right / total if total else 1.0


def doubt(share: float) -> str:
    """A warning about a low agreement; empty when there is none."""
    if share >= _LEAST_AGREEMENT:
        return ""
    return (
        f"the target's final states predict only {share:.0%} of the text's own tokens: they are of "
        "another target or another norm, or the target did not write this text. The drafter will "
        "hardly be of use."
    )
