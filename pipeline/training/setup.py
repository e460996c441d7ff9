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
from ..hidden import HiddenError, HiddenShard, find_hidden
from ..targets import resolve_model
from ..worker import Refused
from .data import Table

_SAMPLE_ROWS: Final = 8
_LEAST_AGREEMENT: Final = 0.3
"""Share of tokens that the target's stored states must predict of its own text, or be in doubt."""


@dataclass(frozen=True)
class Material:
    """All that a training is made from; equal on every rank."""

    config: DrafterConfig
    vocabulary: DraftVocabulary
    target: TargetWeights
    train: Table
    val: Table
    identity: dict[str, str]
    """Fingerprints of what must be the same for a checkpoint to be continued."""


def gather(config: RunConfig, run: RunDir) -> Material:
    """Read what is there. Refused, with the reason, when it cannot be trained on."""
    settings = config.train
    try:
        train, val = (
            Table(find_hidden(run, split), settings.max_tokens, settings.ttt_steps)
            for split in ("train", "val")
        )
        target = TargetWeights.open(resolve_model(config, run))
    except (HiddenError, DrafterError) as error:
        raise Refused(str(error)) from error
    if not len(train):
        example = f", for example {train.example}" if train.example else ""
        raise Refused(
            f"No row of the extracted training data has a token to learn: {train.skipped:,} rows "
            f"have fewer than 2 supervised ones{example}. Look at the loss mask: does merge find "
            "the answers, and is train.max_tokens longer than the prompts?"
        )
    layers = _conventions([*train.shards, *val.shards], target)
    try:
        counts = count_tokens(train.tokens(), target.vocab_size)
        vocabulary = choose(counts, settings.draft_vocab, target.eos_ids())
        drafter = DrafterConfig.for_target(
            target.config,
            layers,
            len(vocabulary.ids),
            intermediate_size=settings.intermediate_size,
            dtype=settings.dtype,
        )
    except ValueError as error:
        raise Refused(f"The drafter cannot be made: {error}.") from error
    return Material(
        drafter, vocabulary, target, train, val, _identity(run, settings, drafter, vocabulary)
    )


def _conventions(shards: list[HiddenShard], target: TargetWeights) -> tuple[int, int, int]:
    """The layers whose states the shards hold. Refused when a shard does not say which, does not
    say that the last state is after the norm, or differs from the others."""
    found: set[tuple[int, int, int]] = set()
    for shard in shards:
        try:
            found.add(shard.layers)
        except (KeyError, ValueError):
            raise Refused(
                f"{shard.path}: does not say of which layers its states are (metadata `layers`, "
                "three indices of hidden states). Run the extract phase again."
            ) from None
        norm = shard.metadata.get("norm")
        if norm != "post":
            raise Refused(
                f"{shard.path}: its last states are {norm or 'of an unknown norm'!r}; training "
                "needs them after the final norm (`post`). Run the extract phase again."
            )
        if shard.hidden_size != target.hidden_size:
            raise Refused(
                f"{shard.path}: states are {shard.hidden_size} wide, those of the target "
                f"{target.hidden_size}. Was target.model changed? Run the extract phase again."
            )
    if len(found) != 1:
        raise Refused(
            f"The shards hold states of different layers: {', '.join(map(str, sorted(found)))}. "
            "Run the extract phase again."
        )
    layers = found.pop()
    if not 1 <= layers[0] < layers[1] < layers[2] < target.num_layers:
        raise Refused(
            f"The states are those of layers {layers}; a drafter that SGLang can serve needs three "
            f"different, ascending indices from 1 to {target.num_layers - 1}. Set extract.layers."
        )
    return layers


def _identity(
    run: RunDir, settings: TrainSection, config: DrafterConfig, vocabulary: DraftVocabulary
) -> dict[str, str]:
    extracted = manifest.read(run, "extract")
    made: Any = [extracted.inputs, extracted.outputs] if extracted else None
    order = settings.model_dump(mode="json", include={"seed", "batch_tokens", "max_tokens"})
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
    """Share of the supervised tokens of some rows that the stored final states predict. A low one
    means another target, a wrong norm, or text that the target did not write."""
    table = material.train
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
        f"the stored final states predict only {share:.0%} of the text's own tokens: they are of "
        "another target or another norm, or the target did not write this text. The drafter will "
        "hardly be of use."
    )
