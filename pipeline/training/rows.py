"""Which rows a training has, and where the states of them come from: as phase 4 has left it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import atomic, jsonl, manifest
from eagle_tui.rundir.jsonl import Appender
from eagle_tui.rundir.paths import RunDir

from ..drafter.layer_ids import misread
from ..drafter.target_weights import TargetWeights
from ..extraction.target import target_hash
from ..extraction.writer import Bad, Quarantine, lasting
from ..hidden import HiddenError, HiddenShard, find_hidden
from ..shards import Split
from ..worker import Failed, Refused
from .data import Table
from .ranks import Ranks
from .sources import LiveRows, Source, StoredRows, WindowRows
from .teacher import LiveTarget

METADATA: Final[tuple[str, ...]] = ("layers", "norm", "dtype", "mask", "target", "target_hash")
_AGAIN: Final = "Run the extract phase again."


@dataclass(frozen=True)
class Rows:
    """The rows of both splits, and the layers whose states they have."""

    train: Table
    val: Table
    layers: tuple[int, int, int]
    window: WindowRows | None = None
    """With it the states of the training rows come window by window."""
    metadata: dict[str, str] | None = None
    """Of the window's shards."""
    away: Away | None = None
    """Where rows are put away while the target runs beside the training."""


class Away:
    """Rows to which the target gave no states, told once each."""

    def __init__(self, path: Path, allowed: float) -> None:
        known = lasting([path])
        if path.exists():
            atomic.write_bytes(path, b"".join(map(jsonl.encode, known)))
        self._known = {str(row["id"]) for row in known}
        self._path, self._allowed = path, allowed
        self.rows = 0
        """Rows that are to be learned from, of all ranks."""

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, bad: Bad) -> None:
        """Put a row away. Failed when there are too many."""
        if bad.id in self._known:
            return
        self._known.add(bad.id)
        with Appender(self._path) as appender:
            Quarantine(appender).put([bad])
        self.check()

    def check(self) -> None:
        """Failed when there are too many, in this attempt or before."""
        if self.rows and len(self._known) > self._allowed * self.rows:
            raise Failed(
                f"{len(self._known)} of {self.rows} rows could not be used, more than "
                f"extract.max_bad_fraction = {self._allowed} allows. The reasons are in "
                f"{self._path}."
            )


def open_rows(config: RunConfig, run: RunDir, target: TargetWeights, ranks: Ranks) -> Rows:
    """The rows as the extract phase has made or planned them. Refused when they cannot be trained
    on, HiddenError when they cannot be read."""
    made = manifest.read(run, "extract")
    mode = made.counts.get("mode", "stored") if made else "stored"
    if mode == "stored" or made is None:
        stored = {split: StoredRows(find_hidden(run, split)) for split in ("train", "val")}
        layers = _conventions([s for rows in stored.values() for s in rows.shards], target)
        train, val = (_table(config, stored[split]) for split in ("train", "val"))
        return Rows(train, val, layers)
    told = made.counts
    layers = _planned(config, run, told, target)
    samples, vocabulary = config.extract.samples, target.vocab_size
    if mode == "rolling":
        window = WindowRows(run, "train", samples, vocabulary, target.hidden_size)
        held_out = StoredRows(find_hidden(run, "val"))
        metadata = {key: str(told[key]) for key in METADATA if key in told}
        train, val = _table(config, window), _table(config, held_out)
        return Rows(train, val, layers, window=window, metadata=metadata)
    teacher = LiveTarget.load(config, run, layers, int(os.environ.get("LOCAL_RANK", "0")))
    away = _away(config, run, manifest.fingerprint([made.inputs, told]), ranks)

    def live(split: Split) -> Table:
        return _table(config, LiveRows(run, split, samples, vocabulary, teacher, away))

    train, val = live("train"), live("val")
    away.rows = len(train) + len(val)
    away.check()
    return Rows(train, val, layers, away=away)


def _away(config: RunConfig, run: RunDir, key: str, ranks: Ranks) -> Away:
    """Where this rank puts rows away. What was put away with other settings does not count."""
    root = run.phase("train")
    if ranks.first:
        for path in root.glob("quarantine-*.jsonl"):
            if not path.name.startswith(f"quarantine-{key}-"):
                path.unlink()
    ranks.barrier()
    path = root / f"quarantine-{key}-{ranks.rank:04d}.jsonl"
    return Away(path, config.extract.max_bad_fraction)


def _table(config: RunConfig, source: Source) -> Table:
    return Table(source, config.train.max_tokens, config.train.ttt_steps)


def _planned(
    config: RunConfig, run: RunDir, told: dict[str, Any], target: TargetWeights
) -> tuple[int, int, int]:
    """The layers that phase 4 has chosen. Refused when the target is another one now."""
    if told.get("target_hash") != target_hash(config, run):
        raise Refused(f"The target is not the one that the extract phase looked at. {_AGAIN}")
    low, mid, high = (int(part) for part in str(told["layers"]).split(","))
    return _check_layers((low, mid, high), target)


def _conventions(shards: list[HiddenShard], target: TargetWeights) -> tuple[int, int, int]:
    """The layers whose states the shards hold. Refused when a shard does not say which, does not
    say that the last state is after the norm, or differs from the others."""
    if not shards:
        raise HiddenError(f"There are no hidden states. {_AGAIN}")
    found: set[tuple[int, int, int]] = set()
    for shard in shards:
        try:
            found.add(shard.layers)
        except (KeyError, ValueError):
            raise Refused(
                f"{shard.path}: does not say of which layers its states are (metadata `layers`, "
                f"three indices of hidden states). {_AGAIN}"
            ) from None
        norm = shard.metadata.get("norm")
        if norm != "post":
            raise Refused(
                f"{shard.path}: its last states are {norm or 'of an unknown norm'!r}; training "
                f"needs them after the final norm (`post`). {_AGAIN}"
            )
        if shard.hidden_size != target.hidden_size:
            raise Refused(
                f"{shard.path}: states are {shard.hidden_size} wide, those of the target "
                f"{target.hidden_size}. Was target.model changed? {_AGAIN}"
            )
    if len(found) != 1:
        raise Refused(
            f"The shards hold states of different layers: {', '.join(map(str, sorted(found)))}. "
            f"{_AGAIN}"
        )
    return _check_layers(found.pop(), target)


def _check_layers(layers: tuple[int, int, int], target: TargetWeights) -> tuple[int, int, int]:
    if not 1 <= layers[0] < layers[1] < layers[2] < target.num_layers:
        raise Refused(
            f"The states are those of layers {layers}; a drafter that SGLang can serve needs three "
            f"different, ascending indices from 1 to {target.num_layers - 1}. Set extract.layers."
        )
    if wrong := misread(target.text.get("model_type"), [layer - 1 for layer in layers]):
        raise Refused(
            f"The states are those of layers {layers}, but {wrong}. Let extract.layers begin with "
            f"2. {_AGAIN}"
        )
    return layers
