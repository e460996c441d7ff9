"""Hidden-state rows as batches: a table of all rows, and a thread that makes batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..drafter.attention import Documents
from ..drafter.ttt import Rows
from ..hidden import HiddenShard, open_hidden

LEAST_SUPERVISED: Final = 2
"""Rows with fewer supervised tokens teach nothing: one draft needs a token to read and a target."""
_AHEAD: Final = 2
"""Batches that wait, besides those in the making."""


class BadRow(ValueError):
    """A row whose states cannot be trained on; the message names it."""


@dataclass(frozen=True)
class Batch:
    """One pack on the CPU, or on the device after `to`. Its n supervised positions are those with a
    row before them in their document."""

    rows: Rows
    anchors: Tensor
    """int64 [n]: the row before each, among the rows of the documents' tails."""
    depths: Tensor
    """int64 [n]: their positions in their documents."""
    last: Tensor
    """[n, Ht]: the target's final states there."""
    numbers: tuple[int, ...]
    """Which rows of the table the documents are."""
    supervised: tuple[int, ...]
    """How many of the n belong to each document."""

    @property
    def tokens(self) -> int:
        return len(self.rows.ids)

    def to(self, device: torch.device) -> Batch:
        """On the device; does not wait for the copy."""
        if device.type == "cpu":
            return self
        return self.each(lambda t: t.to(device, non_blocking=True))

    def each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The same with every tensor changed."""
        r = self.rows
        rows = Rows(change(r.ids), change(r.aux), change(r.positions), r.docs.moved(change))
        return replace(
            self,
            rows=rows,
            anchors=change(self.anchors),
            depths=change(self.depths),
            last=change(self.last),
        )


@dataclass(frozen=True)
class _Document:
    """One row of a pack."""

    ids: Tensor
    aux: Tensor
    last: Tensor
    """Of the supervised positions only."""
    depths: Tensor
    tail: int
    """Rows of the tail."""


class Table:
    """All rows of a split that can be trained on, cut to `max_tokens`."""

    def __init__(self, paths: list[Path], max_tokens: int, steps: int) -> None:
        """`steps` of the training-time test: tails begin so many rows before the first supervised
        token."""
        self.shards: list[HiddenShard] = [open_hidden(path) for path in paths]
        self._steps = steps
        self._sound: set[int] = set()
        """Rows whose states were found to be finite."""
        self._at: list[tuple[int, int]] = []
        self.datasets: list[str] = []
        self.ids: list[str] = []
        lengths: list[int] = []
        self.skipped = 0
        """Rows with too few supervised tokens."""
        self.example = ""
        """One of them, for a message."""
        for number, shard in enumerate(self.shards):
            for row, entry in enumerate(shard.index()):
                length = min(shard.length(row), max_tokens)
                if self._supervised(shard, row, length) < LEAST_SUPERVISED:
                    self.skipped += 1
                    self.example = self.example or (
                        f"row {entry['id']} of {entry['dataset']} ({shard.path.name})"
                    )
                    continue
                self._at.append((number, row))
                self.datasets.append(str(entry["dataset"]))
                self.ids.append(str(entry["id"]))
                lengths.append(length)
        self.lengths = np.array(lengths, np.int64)

    def __len__(self) -> int:
        return len(self._at)

    @staticmethod
    def _supervised(shard: HiddenShard, row: int, length: int) -> int:
        start = int(shard.offsets[row])
        return int(shard.mask[start : start + length].sum())

    def tokens(self) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]]:
        """Ids and masks of all rows, without touching states."""
        for (number, row), length in zip(self._at, self.lengths, strict=True):
            shard = self.shards[number]
            start = int(shard.offsets[row])
            part = slice(start, start + int(length))
            yield shard.ids[part].numpy(), shard.mask[part].numpy()

    def batch(self, numbers: list[int], *, pin: bool = False) -> Batch:
        """Rows laid end to end. Without rows: one document of two tokens and nothing to learn, so
        that a rank without work can still take part. `pin`: in memory from which a GPU copies
        without waiting. BadRow for states that are not finite."""
        documents = [self._document(number) for number in numbers] or [self._nothing()]
        docs = Documents.of([len(d.ids) for d in documents], [d.tail for d in documents])
        rows = Rows(
            ids=torch.cat([d.ids for d in documents]),
            aux=_joined([d.aux for d in documents], pin=pin),
            positions=torch.cat([torch.arange(len(d.ids)) for d in documents]),
            docs=docs,
        )
        anchors = [
            d.depths - 1 - (len(d.ids) - d.tail) + start
            for d, start in zip(documents, docs.tail_bounds, strict=False)
        ]
        batch = Batch(
            rows,
            torch.cat(anchors),
            torch.cat([d.depths for d in documents]),
            _joined([d.last for d in documents], pin=pin),
            tuple(numbers),
            tuple(len(d.depths) for d in documents),
        )
        # A copy from memory that is not pinned would wait for the GPU, however small it is.
        return batch.each(lambda t: t if t.is_pinned() else t.pin_memory()) if pin else batch

    def _document(self, number: int) -> _Document:
        shard_number, row = self._at[number]
        shard, length = self.shards[shard_number], int(self.lengths[number])
        found = shard[row]
        aux, last = found.aux[:length], found.last[:length]
        for what, states in (("aux", aux), ("last", last)) if number not in self._sound else ():
            if not bool(torch.isfinite(states.sum(dtype=torch.float32))):
                raise BadRow(
                    f"row {self.ids[number]} of {self.datasets[number]} ({shard.path}, row {row}) "
                    f"has {what} states that are not finite. Run the extract phase again."
                )
        self._sound.add(number)
        depths = torch.nonzero(found.mask[:length] == 1).flatten()
        depths = depths[depths > 0]
        tail = length - max(0, int(depths[0]) - self._steps)
        return _Document(found.ids[:length].long(), aux, last[depths], depths, tail)

    def _nothing(self) -> _Document:
        width = self.shards[0].hidden_size
        none = torch.zeros(0, dtype=torch.int64)
        return _Document(
            torch.zeros(2, dtype=torch.int64),
            torch.zeros(2, 3 * width, dtype=self.shards[0].aux.dtype),
            torch.zeros(0, width),
            none,
            2,
        )


def _joined(parts: list[Tensor], *, pin: bool) -> Tensor:
    """Parts laid end to end, copied once."""
    rows = sum(len(part) for part in parts)
    whole = torch.empty(rows, *parts[0].shape[1:], dtype=parts[0].dtype, pin_memory=pin)
    return torch.cat(parts, out=whole)


class Ahead:
    """Makes batches in threads, some ahead of their use; they come in the order of their packs."""

    def __init__(
        self, table: Table, packs: Iterator[list[int]], *, pin: bool, threads: int = 1
    ) -> None:
        self._table, self._packs, self._pin = table, packs, pin
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="batches")
        self._coming: deque[Future[Batch]] = deque()
        for _ in range(threads + _AHEAD):
            self._begin()

    def _begin(self) -> None:
        numbers = next(self._packs, None)
        if numbers is not None:
            self._coming.append(self._pool.submit(self._table.batch, numbers, pin=self._pin))

    def take(self) -> Batch | None:
        """The next batch; None at the end. Raises what making it raised."""
        if not self._coming:
            return None
        batch = self._coming.popleft().result()
        self._begin()
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
