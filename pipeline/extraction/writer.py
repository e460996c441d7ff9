"""Putting states on disk beside the computation: threads, fed through one short queue."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eagle_tui.clock import Clock
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.jsonl import Appender

from ..hidden import as_bytes
from ..shards import Split, TokenRow, shard_path
from .plan import RowRef
from .shardfile import write_shard
from .states import States

QUEUE_BATCHES = 4
"""Batches that may wait for the disk; the computation is held up only when they are there."""
MAX_SHARD_BYTES = 1 << 30
"""A shard is held in memory until it is written, so wide models get shards of fewer tokens."""
SHARD_AGE_S = 120.0
"""A shard is written when its first row is this old: what a kill can cost."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that is not stored, and why."""

    id: str
    dataset: str
    reason: str
    passing: bool = False
    """It lay with the moment, not with the row: the next attempt tries it again."""


def no_room(id: str, dataset: str, tokens: int) -> Bad:
    """A row for which the device has no memory, even alone. Others may have taken it."""
    reason = f"{tokens} tokens do not fit into the device's memory"
    return Bad(id, dataset, reason, passing=True)


def lasting(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The rows of these quarantine files, each once, that are put away for later attempts, too."""
    found = {str(row["id"]): row for path in paths for row in jsonl.rows(path)}
    return [row for row in found.values() if not row.get("passing")]


@dataclass
class Open:
    """A shard that is being collected."""

    began: float
    pieces: dict[str, list[Tensor]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)
    index: list[dict[str, Any]] = field(default_factory=list)
    bytes: int = 0

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


class Numbers:
    """Numbers of new shards that no other rank uses: every `step`-th. Threads may share it."""

    def __init__(self, first: int, step: int) -> None:
        self._next, self._step = first, step
        self._lock = threading.Lock()

    def take(self) -> int:
        """The next number."""
        with self._lock:
            number, self._next = self._next, self._next + self._step
            return number


class Quarantine:
    """Where a rank puts away the rows that it does not store. Threads may share it."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._lock = threading.Lock()

    def put(self, bad: Sequence[Bad]) -> None:
        """Put rows away; on disk when this returns."""
        with self._lock:
            for row in bad:
                self._appender.append(asdict(row))
            self._appender.sync()


class HiddenWriter:
    """Collects rows and writes shards. Not to be shared between threads."""

    def __init__(
        self,
        directory: Path,
        metadata: dict[str, str],
        *,
        shard_tokens: int,
        most_bytes: int = MAX_SHARD_BYTES,
        numbers: Numbers,
        quarantine: Quarantine,
        clock: Clock,
        written: Callable[[int], None],
    ) -> None:
        """A shard is written when it has `shard_tokens` tokens, or about `most_bytes` bytes (never
        more than MAX_SHARD_BYTES), or when it is old. `written` is told its size."""
        self._directory = directory
        self._metadata = metadata
        self._shard_tokens = shard_tokens
        self._most_bytes = min(most_bytes, MAX_SHARD_BYTES)
        self._numbers = numbers
        self._quarantine = quarantine
        self._clock = clock
        self._written = written
        self._open: dict[Split, Open] = {}

    def add(self, refs: Sequence[RowRef], rows: Sequence[TokenRow], states: States) -> list[Bad]:
        """Take a batch; gives the rows that were quarantined. Writes shards that are full or old.

        OSError when the disk is full: what was written before stays, the rest is to be done again.
        """
        states.ready()
        split = refs[0].split
        shard = self._open.setdefault(split, Open(self._clock.monotonic()))
        bad, keep = self._judge(refs, rows, states)
        if bad:
            self._quarantine.put(bad)
        if keep:
            self._collect(shard, refs, rows, states, keep)
        for name in list(self._open):
            found = self._open[name]
            old = self._clock.monotonic() - found.began >= SHARD_AGE_S
            if old or found.tokens >= self._shard_tokens or found.bytes >= self._most_bytes:
                self._write(name)
        return bad

    def reject(self, bad: Sequence[Bad]) -> None:
        """Put rows away that never got states."""
        self._quarantine.put(bad)

    def flush(self) -> None:
        """Write what is collected; whole on disk when this returns."""
        for split in list(self._open):
            self._write(split)

    def _judge(
        self, refs: Sequence[RowRef], rows: Sequence[TokenRow], states: States
    ) -> tuple[list[Bad], list[int]]:
        bad: list[Bad] = []
        keep: list[int] = []
        if len(states.lengths) != len(refs) or sum(states.lengths) != len(states.aux):
            reason = f"{len(states.aux)} states for {sum(r.tokens for r in refs)} tokens"
            return [Bad(ref.id, ref.dataset, reason) for ref in refs], []
        sound, start = not bool(states.bad.any()), 0
        for number, (ref, row) in enumerate(zip(refs, rows, strict=True)):
            length = states.lengths[number]
            reason = ""
            if length != len(row.ids):
                reason = f"{length} states for {len(row.ids)} tokens"
            elif not sound and (
                places := torch.nonzero(states.bad[start : start + length]).flatten().tolist()
            ):
                reason = (
                    f"states of {len(places)} of {length} tokens are not finite or too large for "
                    f"{self._metadata['dtype']}, the first at {places[0]}"
                )
            if reason:
                bad.append(Bad(ref.id, ref.dataset, reason))
            else:
                keep.append(number)
            start += length
        return bad, keep

    def _collect(
        self,
        shard: Open,
        refs: Sequence[RowRef],
        rows: Sequence[TokenRow],
        states: States,
        keep: Sequence[int],
    ) -> None:
        found = {
            "aux": states.aux,
            "last": states.last,
            "aux_scale": states.aux_scale,
            "last_scale": states.last_scale,
        }
        if len(keep) < len(refs):
            mask = torch.zeros(len(refs), dtype=torch.bool)
            mask[list(keep)] = True
            tokens = mask.repeat_interleave(torch.tensor(states.lengths))
            found = {k: v[tokens] if v is not None else None for k, v in found.items()}
        for name, tensor in found.items():
            if tensor is None:
                continue
            # Pinned memory goes back to be used for the next batch.
            piece = plain_copy(tensor) if tensor.is_pinned() else tensor.contiguous()
            shard.pieces.setdefault(name, []).append(piece)
            shard.bytes += piece.numel() * piece.element_size()
        ids, masks = ([getattr(rows[n], name) for n in keep] for name in ("ids", "mask"))
        for name, values in (("input_ids", ids), ("loss_mask", masks)):
            shard.pieces.setdefault(name, []).append(torch.from_numpy(np.concatenate(values)))
        for number in keep:
            ref = refs[number]
            shard.lengths.append(ref.tokens)
            shard.index.append(
                {
                    "id": ref.id,
                    "dataset": ref.dataset,
                    "tokens": ref.tokens,
                    "supervised": ref.supervised,
                }
            )

    def _write(self, split: Split) -> None:
        shard = self._open.pop(split)
        if not shard.lengths:
            return
        offsets = torch.tensor([0, *shard.lengths], dtype=torch.int64).cumsum(0)
        path = shard_path(self._directory, split, self._numbers.take())
        pieces = {**shard.pieces, "offsets": [offsets]}
        self._written(write_shard(path, pieces, self._metadata, shard.index))


@dataclass(frozen=True)
class _Item:
    refs: Sequence[RowRef]
    rows: Sequence[TokenRow]
    states: States


@dataclass(frozen=True)
class _Rejected:
    bad: list[Bad]


def plain_copy(tensor: Tensor) -> Tensor:
    """A copy in ordinary memory, made by this thread alone: torch would set all cores to it, from
    every thread that writes."""
    copied = torch.from_numpy(as_bytes(tensor).copy())
    return copied.view(tensor.dtype).view(tensor.shape)


class AsyncWriter:
    """HiddenWriters, each in a thread of its own, that take from one queue. `put` waits only when
    the queue is full."""

    def __init__(
        self,
        writers: Sequence[HiddenWriter],
        clock: Clock,
        stored: Callable[[int, int, list[Bad]], None],
    ) -> None:
        """`stored` is told, from the threads, of rows and tokens taken and of rows put away."""
        self._clock = clock
        self._stored = stored
        self._queue: queue.Queue[_Item | _Rejected | None] = queue.Queue(QUEUE_BATCHES)
        self._error: BaseException | None = None
        self.waited_s = 0.0
        """Seconds for which the computation was held up by the disk."""
        self._threads = [
            threading.Thread(target=self._run, args=(one,), name="hidden-writer", daemon=True)
            for one in writers
        ]
        for thread in self._threads:
            thread.start()

    def put(self, refs: Sequence[RowRef], rows: Sequence[TokenRow], states: States) -> None:
        """Hand a batch over. What went wrong in a thread is raised here."""
        self._put(_Item(refs, rows, states))

    def reject(self, bad: Sequence[Bad]) -> None:
        """Hand rows over that got no states and are to be put away."""
        self._put(_Rejected(list(bad)))

    def _put(self, item: _Item | _Rejected) -> None:
        self._check()
        began = self._clock.monotonic()
        self._queue.put(item)
        self.waited_s += self._clock.monotonic() - began

    def close(self) -> None:
        """Wait until everything is on disk. What went wrong in a thread is raised here."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self, writer: HiddenWriter) -> None:
        ended = False
        try:
            while (item := self._queue.get()) is not None:
                if isinstance(item, _Rejected):
                    writer.reject(item.bad)
                    self._stored(0, 0, item.bad)
                    continue
                bad = writer.add(item.refs, item.rows, item.states)
                tokens = sum(ref.tokens for ref in item.refs)
                self._stored(len(item.refs) - len(bad), tokens, bad)
            ended = True
            writer.flush()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that works
            self._error = self._error or error
            while not ended:
                # Nobody may wait for a queue that is not emptied any more.
                ended = self._queue.get() is None
