"""Key/value cache whose rows are the running requests.

Rows 0..n-1 are live and lie next to each other, so a decode step attends over one slice of the
buffer and copies nothing. A request that leaves is replaced by the last row. The buffers grow by
half with the longest row and the number of rows; a step touches only the live rows, up
to the longest live length rounded up to `BUCKET`, so its cost follows what runs now and not what
could run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

#: Lengths are rounded up to this many tokens: shapes change rarely, little is attended in vain.
BUCKET = 64
#: Attention is split in two (see `attention`) when that spares reading so many positions a layer:
#: some 0.1 ms, a few times what the second call costs.
SPLIT_GAIN = 2048
#: First size of the buffers.
FIRST_ROWS, FIRST_LENGTH = 4, 256


def round_up(value: int, step: int) -> int:
    """The least multiple of ``step`` that is not below ``value``."""
    return -(-value // step) * step


def best_split(lengths: list[int], span: int) -> tuple[int, int] | None:
    """The row from which on the rows may be cut to a shorter span, and that span; None when it
    would spare less than `SPLIT_GAIN` positions. ``span`` is the rounded longest length."""
    best, gain = None, SPLIT_GAIN - 1
    longest = 0
    for row in range(len(lengths) - 1, 0, -1):
        longest = max(longest, lengths[row])
        short = round_up(longest, BUCKET)
        spared = (len(lengths) - row) * (span - short)
        if spared > gain:
            best, gain = (row, short), spared
    return best


class SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """Keys and values of one layer: ``[rows, kv_heads, length, head_dim]`` each."""

    is_compileable = False

    def __init__(self, owner: SlotCache) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate on the first use, when head count and dtype are known."""
        rows, length = self._owner.rows, self._owner.length
        # Zeros, not empty: a masked position has weight 0, and 0 times a stray NaN is NaN.
        self.keys = key_states.new_zeros(rows, key_states.shape[1], length, key_states.shape[3])
        self.values = value_states.new_zeros(
            rows, value_states.shape[1], length, value_states.shape[3]
        )
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store what this step computed and return what it attends to.

        ``key_states`` is ``[n, kv_heads, t, head_dim]``. In a prefill (t tokens of each new row)
        that is the new keys themselves; in a decode step (t = 1) the live rows' whole slice.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        owner = self._owner
        if owner.prefill_rows is not None:
            first, count = owner.prefill_rows
            span = key_states.shape[2]
            self.keys[first : first + count, :, :span] = key_states
            self.values[first : first + count, :, :span] = value_states
            return key_states, value_states
        self.keys[owner.index, :, owner.positions] = key_states[:, :, 0]
        self.values[owner.index, :, owner.positions] = value_states[:, :, 0]
        live = len(owner.index)
        return self.keys[:live, :, : owner.span], self.values[:live, :, : owner.span]

    def resize(self, rows: int, length: int) -> None:
        """Reallocate, keeping what fits."""
        for name in ("keys", "values"):
            old: Tensor | None = getattr(self, name)
            if old is None:
                continue
            new = old.new_zeros(rows, old.shape[1], length, old.shape[3])
            r, t = min(rows, old.shape[0]), min(length, old.shape[2])
            new[:r, :, :t] = old[:r, :, :t]
            setattr(self, name, new)

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first ``length`` positions of one row over another."""
        for buffer in (self.keys, self.values):
            if buffer is not None:
                buffer[target, :, :length] = buffer[source, :, :length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Only asked by models that ignore the ready-made 4-D mask."""
        return self._owner.span, 0

    def get_seq_length(self) -> int:
        """Positions are always given explicitly; there is no single length."""
        return 0

    def get_max_cache_shape(self) -> int:
        """Buffers grow: no maximum."""
        return -1

    def get_max_length(self) -> int:
        """Buffers grow: no maximum."""
        return -1


class SlotCache(Cache):
    """All layers, and which rows and positions the coming forward pass writes.

    The mask is kept here too, as an additive float row per request that opens one position per
    step, instead of being built anew in every step.
    """

    def __init__(self, layers: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self.rows, self.length = FIRST_ROWS, FIRST_LENGTH
        self.prefill_rows: tuple[int, int] | None = None
        self.span = 0
        self.split: tuple[int, int] | None = None
        self.index = torch.zeros(0, dtype=torch.long, device=device)
        self.positions = torch.zeros(0, dtype=torch.long, device=device)
        self._device, self._dtype = device, dtype
        self._closed = torch.finfo(dtype).min
        self._mask = self._new_mask()
        self._all_rows = torch.arange(self.rows, device=device)
        super().__init__(layers=[SlotLayer(self) for _ in range(layers)])

    def _new_mask(self) -> Tensor:
        return torch.full(
            (self.rows, self.length), self._closed, dtype=self._dtype, device=self._device
        )

    def reserve(self, rows: int, length: int) -> None:
        """Make room for ``rows`` requests of up to ``length`` tokens."""
        if rows <= self.rows and length <= self.length:
            return
        new_rows = self.rows if rows <= self.rows else max(rows, self.rows * 3 // 2)
        new_length = self.length
        if length > self.length:
            new_length = round_up(max(length, self.length * 3 // 2), BUCKET)
        old_mask, (old_rows, old_length) = self._mask, (self.rows, self.length)
        self.rows, self.length = new_rows, new_length
        self._mask = self._new_mask()
        self._mask[:old_rows, :old_length] = old_mask
        self._all_rows = torch.arange(new_rows, device=self._device)
        for layer in self._slots():
            layer.resize(new_rows, new_length)

    def release(self) -> None:
        """Give the memory back; only when no row is live."""
        self.rows, self.length = FIRST_ROWS, FIRST_LENGTH
        self._mask = self._new_mask()
        self._all_rows = torch.arange(self.rows, device=self._device)
        for layer in self._slots():
            layer.keys = layer.values = None
            layer.is_initialized = False

    def begin_prefill(self, first_row: int, lengths: list[int]) -> Tensor:
        """Prepare a forward pass over new rows; returns its mask ``[1, 1, t, t]`` (causal).

        Rows are padded on the right to the longest of ``lengths``: under a causal mask no real
        token sees the padding, and later steps overwrite it.
        """
        span = max(lengths)
        self.reserve(first_row + len(lengths), span)
        self.prefill_rows, self.span, self.split = (first_row, len(lengths)), span, None
        for row, length in enumerate(lengths, start=first_row):
            self._mask[row, :length] = 0.0
            self._mask[row, length:] = self._closed
        return torch.full(
            (1, 1, span, span), self._closed, dtype=self._dtype, device=self._device
        ).triu_(1)

    def begin_decode(self, positions: list[int]) -> tuple[Tensor, Tensor]:
        """Prepare a decode step that writes row i at ``positions[i]``.

        Returns the positions ``[n]`` and the additive mask ``[n, 1, 1, span]``.
        """
        live = len(positions)
        longest = max(positions) + 1
        self.reserve(live, longest)
        self.prefill_rows = None
        self.span = min(round_up(longest, BUCKET), self.length)
        self.split = best_split([position + 1 for position in positions], self.span)
        self.index = self._all_rows[:live]
        self.positions = torch.tensor(positions, device=self._device)
        self._mask[self.index, self.positions] = 0.0
        return self.positions, self._mask[:live, None, None, : self.span]

    def move_row(self, source: int, target: int, length: int) -> None:
        """Let ``target`` become a copy of ``source``, whose first ``length`` positions count."""
        self._mask[target] = self._mask[source]
        for layer in self._slots():
            layer.move(source, target, length)

    def _slots(self) -> list[SlotLayer]:
        return [layer for layer in self.layers if isinstance(layer, SlotLayer)]

    @property
    def bytes(self) -> int:
        """Bytes that keys and values take now."""
        buffers = [b for layer in self._slots() for b in (layer.keys, layer.values)]
        return sum(b.numel() * b.element_size() for b in buffers if b is not None)
