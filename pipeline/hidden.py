"""Hidden-state shards: what phase 4 writes and phase 5 reads.

A shard is a safetensors file of S rows laid end to end, N tokens in all; Ht is the hidden size of
the target, of which three states are kept beside the last one:

- `input_ids` int32 [N], `loss_mask` uint8 [N] (**unshifted**, as in `shards.py`), `offsets` int64
  [S+1]: row i is [offsets[i], offsets[i+1])
- `aux` [N, 3*Ht]: the inputs of three layers, low|mid|high, in the stored type
- `last` [N, Ht]: the final state **after the final norm**: `lm_head(last)` are the target's logits,
  where position t predicts token t+1
- only when the stored type is float8 (e4m3): `aux_scale` float32 [N, 3] and `last_scale` float32
  [N, 1]; a state is the stored value times the scale of its row (of its row and third)

Metadata (all text): `schema`, `layers` ("2,15,27": index i is the **input of layer i**, which is
the output of layer i-1, as element i of transformers' `output_hidden_states`), `norm` ("post"),
`dtype` of the states, `target` and `target_hash` of the model, `mask` ("unshifted"), `crc32` (JSON:
tensor → CRC of its bytes).

Beside `train-00000.safetensors` lies `train-00000.index.jsonl`: {id, dataset, tokens, supervised} a
row, in the same order. Rows of like length stand together, so a reader that wants chance shuffles.
The shards of one extraction lie in a directory of their own, named by the manifest of phase 4; what
the manifest does not name is not finished, or is left over.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from eagle_tui.rundir import jsonl, manifest
from eagle_tui.rundir.paths import RunDir

from .shards import Split, index_path

SCHEMA = "eagle-tui-hidden-1"
SUFFIX = ".safetensors"
_AGAIN = "Run the extract phase again."


class HiddenError(ValueError):
    """A hidden-state shard is missing, torn or not what it should be; the message names it."""


@dataclass(frozen=True, slots=True)
class HiddenRow:
    """One sequence of T tokens with the target's states."""

    ids: Tensor
    """int32 [T]"""
    mask: Tensor
    """uint8 [T], unshifted: 1 where the token is to be predicted."""
    aux: Tensor
    """[T, 3*Ht], low|mid|high; bfloat16 when stored as float8, else the stored type."""
    last: Tensor
    """[T, Ht], after the final norm; type as `aux`."""


@dataclass(frozen=True)
class HiddenShard:
    """A shard whose states are mapped, not read: memory is taken by the rows that are used."""

    path: Path
    ids: Tensor
    """int32 [N]"""
    mask: Tensor
    """uint8 [N]"""
    offsets: Tensor
    """int64 [S+1]"""
    aux: Tensor
    """[N, 3*Ht] as stored."""
    last: Tensor
    """[N, Ht] as stored."""
    aux_scale: Tensor | None
    """float32 [N, 3], float8 only."""
    last_scale: Tensor | None
    """float32 [N, 1], float8 only."""
    metadata: dict[str, str]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def layers(self) -> tuple[int, int, int]:
        """Indices of the three states: inputs of these layers."""
        low, mid, high = (int(part) for part in self.metadata["layers"].split(","))
        return low, mid, high

    @property
    def hidden_size(self) -> int:
        """Ht."""
        return int(self.last.shape[1])

    def length(self, row: int) -> int:
        """Tokens of a row, without touching its states."""
        return int(self.offsets[row + 1] - self.offsets[row])

    def __getitem__(self, row: int) -> HiddenRow:
        """A row by its place; views where the stored type allows. IndexError beyond the end."""
        if not 0 <= row < len(self):
            raise IndexError(f"{self.path.name} has {len(self)} rows, asked for {row}")
        part = slice(int(self.offsets[row]), int(self.offsets[row + 1]))
        aux, last = self.aux[part], self.last[part]
        if self.aux_scale is not None and self.last_scale is not None:
            aux, last = restore(aux, self.aux_scale[part]), restore(last, self.last_scale[part])
        return HiddenRow(self.ids[part], self.mask[part], aux, last)

    def rows(self) -> Iterator[HiddenRow]:
        """Every row, in order."""
        return (self[row] for row in range(len(self)))

    def index(self) -> list[dict[str, Any]]:
        """What each row is: {id, dataset, tokens, supervised}."""
        return list(jsonl.rows(index_path(self.path)))

    def verify(self) -> None:
        """Compare every tensor with its checksum; reads the whole shard. HiddenError on a
        difference."""
        wanted = json.loads(self.metadata.get("crc32", "{}"))
        for name, tensor in self._tensors().items():
            if name in wanted and checksum(tensor) != wanted[name]:
                raise HiddenError(f"{self.path}: {name} has changed on the disk. {_AGAIN}")

    def _tensors(self) -> dict[str, Tensor]:
        found = {
            "input_ids": self.ids,
            "loss_mask": self.mask,
            "offsets": self.offsets,
            "aux": self.aux,
            "last": self.last,
            "aux_scale": self.aux_scale,
            "last_scale": self.last_scale,
        }
        return {name: tensor for name, tensor in found.items() if tensor is not None}


def restore(stored: Tensor, scale: Tensor) -> Tensor:
    """bfloat16 [T, W] from float8 [T, W] and float32 scales [T, G], each for W/G values."""
    rows, width = stored.shape
    groups = stored.to(torch.float32).view(rows, scale.shape[1], -1)
    return (groups * scale.unsqueeze(-1)).view(rows, width).to(torch.bfloat16)


def checksum(tensor: Tensor, start: int = 0) -> int:
    """CRC-32 of the tensor's bytes, continued from `start`."""
    return zlib.crc32(memoryview(as_bytes(tensor)), start)


def as_bytes(tensor: Tensor) -> Any:
    """The bytes of a contiguous CPU tensor as a numpy array, without a copy."""
    return tensor.contiguous().view(-1).view(torch.uint8).numpy()


def open_hidden(path: Path) -> HiddenShard:
    """Map a shard and check its shapes. HiddenError when it cannot be used."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = dict(file.metadata() or {})
            names: list[str] = file.keys()
            found: dict[str, Tensor] = {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise HiddenError(f"{path}: cannot be read ({error}). {_AGAIN}") from error
    if metadata.get("schema") != SCHEMA:
        raise HiddenError(f"{path}: is no hidden-state shard of schema {SCHEMA}. {_AGAIN}")
    try:
        shard = HiddenShard(
            path,
            ids=found["input_ids"],
            mask=found["loss_mask"],
            offsets=found["offsets"],
            aux=found["aux"],
            last=found["last"],
            aux_scale=found.get("aux_scale"),
            last_scale=found.get("last_scale"),
            metadata=metadata,
        )
    except KeyError as error:
        raise HiddenError(f"{path}: holds no {error}. {_AGAIN}") from None
    tokens = len(shard.ids)
    sound = (
        shard.ids.dtype == torch.int32
        and shard.mask.dtype == torch.uint8
        and shard.offsets.dtype == torch.int64
        and shard.aux.ndim == shard.last.ndim == 2
        and len(shard.mask) == len(shard.aux) == len(shard.last) == tokens
        and shard.aux.shape[1] == 3 * shard.last.shape[1]
        and len(shard.offsets) >= 1
        and int(shard.offsets[0]) == 0
        and int(shard.offsets[-1]) == tokens
        and bool((shard.offsets.diff() >= 0).all())
        and (shard.aux.dtype == torch.float8_e4m3fn) == (shard.aux_scale is not None)
        and (shard.last.dtype == torch.float8_e4m3fn) == (shard.last_scale is not None)
    )
    if not sound:
        raise HiddenError(f"{path}: its tensors do not fit together. {_AGAIN}")
    return shard


def find_hidden(run: RunDir, split: Split) -> list[Path]:
    """The shards of the finished extraction, in order. Empty when there are none of that split;
    HiddenError when no extraction has finished."""
    made = manifest.read(run, "extract")
    if made is None:
        raise HiddenError(
            f"{run.phase('extract')}: no extraction has finished. Run the extract phase first."
        )
    names = sorted(name for name in made.outputs if name.endswith(SUFFIX))
    return [
        run.phase("extract") / name for name in names if Path(name).name.startswith(f"{split}-")
    ]


def iterate_hidden(run: RunDir, split: Split) -> Iterator[HiddenRow]:
    """Every row of a split, in the order of the shards."""
    for path in find_hidden(run, split):
        yield from open_hidden(path).rows()
