"""The ranks of a training: one process, or several under torchrun."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..torchrun.rank import under_torchrun
from .model import TrainingModel

_TIMEOUT: Final = datetime.timedelta(minutes=30)
"""A rank may wait that long for the others, who may be validating or writing a checkpoint."""
_groups: list[Any] = []
"""Keeps groups until the process ends."""


class NoDevice(ValueError):
    """The device asked for is not there."""


@dataclass(frozen=True)
class Ranks:
    """This process among those of the training."""

    rank: int
    world: int
    device: torch.device

    @property
    def first(self) -> bool:
        """The one that speaks for all."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum over ranks, in place, on the tensor's own device."""
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor

    def sum_array(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Sum over ranks of an array on the CPU."""
        if self.world == 1:
            return values
        return self.sum(torch.from_numpy(values.copy())).numpy()

    def any(self, flags: list[bool]) -> list[bool]:
        """Which flags any rank has set. On the CPU: a GPU is not waited for."""
        if self.world == 1:
            return flags
        found = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return [bool(f) for f in found]

    def barrier(self) -> None:
        """Wait for all."""
        if self.world > 1:
            self.any([False])


def pick_device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device of this rank. NoDevice when a GPU was asked for and there is none."""
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise NoDevice('train.device is "cuda", but PyTorch finds no GPU; set it to "auto"')
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def join(wanted: Literal["auto", "cpu", "cuda"]) -> Iterator[Ranks]:
    """Be a rank: alone, or of the group that torchrun made."""
    device = pick_device(wanted)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if not under_torchrun():
        yield Ranks(0, 1, device)
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=_TIMEOUT)
    # PyTorch takes a group down when its last owner goes. Where that is the wrapped model, it
    # waits for Gloo's thread under the GIL, which that thread may want: both hang for ever.
    _groups.append(dist.group.WORLD)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


def spread(model: TrainingModel, ranks: Ranks, strategy: Literal["ddp", "fsdp2"]) -> nn.Module:
    """The module to call in a step: gradients come out as means over ranks. FSDP2 shards the
    parameters in place; make optimizers afterwards."""
    if ranks.world == 1:
        return model
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    # The drafter is one layer used many times a step, so it is gathered once, as a whole.
    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    policy = MixedPrecisionPolicy(
        param_dtype=model.dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model
