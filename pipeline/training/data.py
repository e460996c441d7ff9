"""Rows as batches: a table of all rows of a split, and threads that make batches ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..drafter.attention import Documents
from ..drafter.ttt import Rows
from ..hidden import HiddenRow
from .sources import Source

LEAST_SUPERVISED: Final = 2
"""Rows with fewer supervised tokens teach nothing: one draft needs a token to read and a target."""
_AHEAD: Final = 2
"""Batches that wait, besides those in the making."""


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

    @property
    def learned(self) -> int:
        """Rows from which something is learned: not those that have no states."""
        return sum(1 for count in self.supervised if count)

    def to(self, device: torch.device) -> Batch:
        """On the device; does not wait for the copy."""
        if device.type == "cpu":
            return self

        def there(tensor: Tensor) -> Tensor:
            if tensor.is_cuda:
                # Made on a stream of its own, to whose memory it goes back: not before this one
                # has used it.
                tensor.record_stream(torch.cuda.current_stream(tensor.device))
            return tensor.to(device, non_blocking=True)

        return self.each(there)

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
    depths: Tensor
    """The supervised positions."""
    tail: int
    """Rows of the tail."""


class Table:
    """All rows of a split that can be trained on, cut to `max_tokens`, in the order of their ids:
    the same wherever the states come from, and however many ranks have extracted them."""

    def __init__(self, source: Source, max_tokens: int, steps: int) -> None:
        """`steps` of the training-time test: tails begin so many rows before the first supervised
        token."""
        self.source = source
        self._steps = steps
        self._limit = max_tokens
        self.skipped = 0
        """Rows with too few supervised tokens."""
        self.example = ""
        """One of them, for a message."""
        found: list[tuple[str, str, int, int]] = []
        for place, entry in enumerate(source.entries()):
            mask = source.tokens(place)[1][:max_tokens]
            if int(mask.sum()) < LEAST_SUPERVISED:
                self.skipped += 1
                self.example = self.example or f"row {entry.id} of {entry.dataset} ({entry.where})"
                continue
            found.append((entry.id, entry.dataset, place, len(mask)))
        found.sort()
        self.ids = [row[0] for row in found]
        self.datasets = [row[1] for row in found]
        self.places = [row[2] for row in found]
        """Of the rows in the source."""
        self.lengths = np.array([row[3] for row in found], np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def tokens(self) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]]:
        """Ids and masks of all rows, without touching states."""
        for place in self.places:
            ids, mask = self.source.tokens(place)
            yield ids[: self._limit].numpy(), mask[: self._limit].numpy()

    def batch(self, numbers: list[int], *, pin: bool = False) -> Batch:
        """Rows laid end to end. In place of a row without states, and without rows: a document of
        two tokens and nothing to learn, so that a rank without work can still take part. `pin`: in
        memory from which a GPU copies without waiting. BadRow for states that are not finite."""
        with self.source.making():
            return self._batch(numbers, pin)

    def _batch(self, numbers: list[int], pin: bool) -> Batch:
        rows = self.source.states([self.places[n] for n in numbers], self._limit)
        documents = [self._document(row, rows) for row in rows or [None]]
        docs = Documents.of([len(d.ids) for d in documents], [d.tail for d in documents])
        laid = Rows(
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
            laid,
            torch.cat(anchors),
            torch.cat([d.depths for d in documents]),
            _supervised(documents, pin=pin),
            tuple(numbers),
            tuple(len(d.depths) for d in documents),
        )
        # A copy from memory that is not pinned would wait for the GPU, however small it is.
        return batch.each(pinned) if pin else batch

    def _document(self, row: HiddenRow | None, rows: list[HiddenRow | None]) -> _Document:
        if row is None:
            return self._nothing(next((r.aux for r in rows if r is not None), None))
        depths = torch.nonzero(row.mask == 1).flatten()
        depths = depths[depths > 0]
        tail = len(row.ids) - max(0, int(depths[0]) - self._steps)
        return _Document(row.ids.long(), row.aux, row.last, depths, tail)

    def _nothing(self, like: Tensor | None) -> _Document:
        """As the other rows of the pack are, if there are any."""
        width, kind = self.source.hidden_size, self.source.dtype if like is None else like.dtype
        device = "cpu" if like is None else like.device
        return _Document(
            torch.zeros(2, dtype=torch.int64),
            torch.zeros(2, 3 * width, dtype=kind, device=device),
            torch.zeros(2, width, dtype=kind, device=device),
            torch.zeros(0, dtype=torch.int64),
            2,
        )


def pinned(tensor: Tensor) -> Tensor:
    """A tensor of the CPU in pinned memory; one of a device as it is."""
    return tensor if tensor.is_cuda or tensor.is_pinned() else tensor.pin_memory()


def _supervised(documents: list[_Document], *, pin: bool) -> Tensor:
    """[n, Ht]: the final states of the supervised positions of all documents."""
    if not documents[0].last.is_cuda:
        return _joined([d.last[d.depths] for d in documents], pin=pin)
    # All at once: each index that goes to the GPU from ordinary memory waits for it, and who waits
    # there then waits for the interpreter, which the thread that trains gives away every 5 ms.
    ends = accumulate((len(d.last) for d in documents), initial=0)
    places = torch.cat([d.depths + end for d, end in zip(documents, ends, strict=False)])
    whole = torch.cat([d.last for d in documents])
    return whole.index_select(0, places.pin_memory().to(whole.device, non_blocking=True))


def _joined(parts: list[Tensor], *, pin: bool) -> Tensor:
    """Parts laid end to end, copied once."""
    rows = sum(len(part) for part in parts)
    first = parts[0]
    pin = pin and not first.is_cuda
    shape = (rows, *first.shape[1:])
    whole = torch.empty(shape, dtype=first.dtype, device=first.device, pin_memory=pin)
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
