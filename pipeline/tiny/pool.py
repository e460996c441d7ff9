"""Training documents on the device, grouped by length so that a batch has little padding.

Documents stand alone in their rows, from position 0 and without others before them, as they will
when the model is used; attention needs no mask, because the padding comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from .corpus import Documents
from .tokenizer import PAD_ID

ROW_LENGTHS: Final = (64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536)


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Token ids, and which of them are to be predicted."""

    ids: Tensor  # [rows, length] int64
    targets: Tensor  # [rows, length] bool: the token at this place belongs to an output


class DocumentPool:
    """A ring of the newest documents for each row length."""

    def __init__(self, device: torch.device, tokens_per_length: int, seed: int) -> None:
        self._device = device
        self._rings = [_Ring(length, tokens_per_length // length, device) for length in ROW_LENGTHS]
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self._choice = np.random.default_rng(seed)
        self.seen_tokens = 0
        self.dropped = 0

    def add(self, documents: Documents) -> None:
        """Put documents into the pool; those longer than the longest row are counted and
        dropped."""
        starts = np.concatenate(([0], np.cumsum(documents.lengths)[:-1]))
        row_of = np.searchsorted(ROW_LENGTHS, documents.lengths)
        self.dropped += int((row_of == len(ROW_LENGTHS)).sum())
        for index, ring in enumerate(self._rings):
            chosen = np.flatnonzero(row_of == index)
            if not len(chosen):
                continue
            rows = np.full((len(chosen), ring.length), PAD_ID, dtype=np.int16)
            for row, at in zip(rows, chosen, strict=True):
                row[: documents.lengths[at]] = documents.tokens[starts[at] :][
                    : documents.lengths[at]
                ]
            bounds = np.stack((documents.prompt_lengths[chosen], documents.lengths[chosen]), axis=1)
            ring.add(torch.from_numpy(rows), torch.from_numpy(bounds))
        self.seen_tokens += int(documents.lengths.sum())

    def sample(self, tokens: int) -> TrainingBatch:
        """A batch of about ``tokens`` tokens, all rows of one length, drawn with replacement.

        Lengths come as often as their tokens do, so that every document is as likely as any other.
        """
        weights = np.array([ring.total * ring.length for ring in self._rings], dtype=np.float64)
        ring = self._rings[self._choice.choice(len(self._rings), p=weights / weights.sum())]
        count = max(1, tokens // ring.length)
        at = torch.randint(ring.filled, (count,), generator=self._generator, device=self._device)
        ids, bounds = ring.rows[at].long(), ring.bounds[at]
        place = torch.arange(ring.length, device=self._device)
        return TrainingBatch(ids, (place >= bounds[:, :1]) & (place < bounds[:, 1:]))


class _Ring:
    def __init__(self, length: int, capacity: int, device: torch.device) -> None:
        self.length = length
        self.rows = torch.empty((capacity, length), dtype=torch.int16, device=device)
        self.bounds = torch.empty((capacity, 2), dtype=torch.int32, device=device)
        self.filled = 0
        self.total = 0

    def add(self, rows: Tensor, bounds: Tensor) -> None:
        capacity = len(self.rows)
        at = (torch.arange(len(rows)) + self.total) % capacity
        at = at.to(self.rows.device)
        self.rows[at] = rows.to(self.rows.device)
        self.bounds[at] = bounds.to(self.rows.device, torch.int32)
        self.total += len(rows)
        self.filled = min(self.total, capacity)
