"""The target beside the training: it gives the states of rows at the moment when they are needed.

It runs in a thread of its own, on a GPU on a stream of its own, so that the next batches are made
while the drafter learns from this one. States pass through the type in which they would be stored,
so the drafter learns from the same numbers as from shards on a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
from torch import Tensor

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from ..extraction.plan import cut_by_length
from ..extraction.states import STORED, pack
from ..extraction.target import Capture, load_target, pick_device
from ..hidden import HiddenRow, restore
from ..shards import TokenRow
from .sources import NoRoom, one_at_a_time

NOT_FINITE: Final = "states are not finite or too large for {dtype}"


class LiveTarget:
    """The target, loaded; a `Teacher`."""

    def __init__(
        self, model: Any, layers: tuple[int, int, int], dtype: str, batch_tokens: int
    ) -> None:
        """`dtype` is that of the states (`extract.dtype`); `batch_tokens` those that the target is
        given at a time, padding included."""
        self._capture = Capture(model, layers, dtype)
        self._batch_tokens = batch_tokens
        self._stored = dtype
        self._lock = threading.Lock()
        device = self._capture.device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            # It goes before the training's, which waits for what comes of it.
            self._stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
        self.hidden_size = self._capture.hidden_size
        self.dtype = torch.bfloat16 if dtype == "float8" else STORED[dtype]

    @classmethod
    def load(
        cls, config: RunConfig, run: RunDir, layers: tuple[int, int, int], local_rank: int
    ) -> LiveTarget:
        """Load the target for a rank. Refused when that is impossible."""
        settings = config.extract
        device = pick_device(settings.device, local_rank)
        model = load_target(config, run, device)
        return cls(model, layers, settings.dtype, settings.batch_tokens)

    def making(self) -> AbstractContextManager[None]:
        """One thread at a time; what was made is whole when this is closed."""
        return one_at_a_time(self._lock, self._stream)

    @torch.no_grad()
    def states(self, rows: Sequence[TokenRow]) -> list[HiddenRow | str | NoRoom]:
        """Each row with its states [T, …] on the target's device, or why it has none. Only within
        `making`."""
        found: list[HiddenRow | str | NoRoom] = [""] * len(rows)
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place].ids))
        todo = cut_by_length(order, lambda place: len(rows[place].ids), self._batch_tokens)
        while todo:
            places = todo.pop()
            part = self._try([rows[place] for place in places])
            if part is not None:
                for place, states in zip(places, part, strict=True):
                    found[place] = states
                continue
            torch.cuda.empty_cache()
            if len(places) == 1:
                found[places[0]] = NoRoom()
            else:
                half = len(places) // 2
                todo += [places[half:], places[:half]]
        return found

    def _try(self, rows: Sequence[TokenRow]) -> list[HiddenRow | str] | None:
        """The states, or None when the device is too small."""
        try:
            return self._states(rows)
        except torch.OutOfMemoryError:
            return None

    def _states(self, rows: Sequence[TokenRow]) -> list[HiddenRow | str]:
        aux, last, lengths = self._capture.flat(rows)
        packed = pack(aux, last, lengths, self._stored)
        aux, last = packed.aux, packed.last
        if packed.aux_scale is not None and packed.last_scale is not None:
            aux, last = restore(aux, packed.aux_scale), restore(last, packed.last_scale)
        parts = (torch.split(t, lengths) for t in (aux, last, packed.bad.cpu()))
        found: list[HiddenRow | str] = []
        for row, aux_of, last_of, marks in zip(rows, *parts, strict=True):
            if bool(marks.any()):
                found.append(NOT_FINITE.format(dtype=self._stored))
            else:
                found.append(HiddenRow(_tensor(row.ids), _tensor(row.mask), aux_of, last_of))
        return found


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(values)
