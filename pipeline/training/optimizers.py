"""AdamW, or Muon for matrices; states as plain tensors by name: no checkpoint is a pickle."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from eagle_tui.config.drafter import TrainSection

BETAS: Final = (0.9, 0.95)
_NOT_FOR_MUON: Final = ("lm_head.",)
"""Matrices whose rows are classes, not features of a layer below."""


class NoMuon(ValueError):
    """Muon cannot be used here; the message says why."""


class Optimizers:
    """One or two optimizers over the named parameters of a module."""

    def __init__(self, module: nn.Module, settings: TrainSection) -> None:
        self._names: dict[Tensor, str] = {
            p: name for name, p in module.named_parameters() if p.requires_grad
        }
        matrices = {p for p, name in self._names.items() if p.ndim == 2}
        muon: set[Tensor] = set()
        if settings.optimizer == "muon":
            if not hasattr(torch.optim, "Muon"):
                raise NoMuon("needs torch 2.9 or newer; set train.optimizer to adamw")
            if settings.strategy == "fsdp2" and any(isinstance(p, DTensor) for p in matrices):
                raise NoMuon("needs whole matrices; set train.strategy to ddp, or use adamw")
            muon = {
                p for p in matrices if not any(part in self._names[p] for part in _NOT_FOR_MUON)
            }
        groups = [
            {
                "params": [p for p in self._names if p in matrices - muon],
                "weight_decay": settings.weight_decay,
            },
            {"params": [p for p in self._names if p not in matrices], "weight_decay": 0.0},
        ]
        adamw = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=BETAS, fused=True)
        self._all: dict[str, Optimizer] = {"adamw": adamw}
        if muon:
            self._all["muon"] = torch.optim.Muon(
                [p for p in self._names if p in muon],
                lr=settings.learning_rate,
                weight_decay=settings.weight_decay,
                # Updates as large as AdamW's, so that one learning rate fits both.
                adjust_lr_fn="match_rms_adamw",
            )

    def set_rate(self, rate: float) -> None:
        """The learning rate of the next step."""
        for optimizer in self._all.values():
            for group in optimizer.param_groups:
                group["lr"] = rate

    def step(self) -> None:
        """Take a step, and clear the gradients."""
        for optimizer in self._all.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """`optimizer/parameter/key` → whole tensor on the CPU. Every rank must call it."""
        found: dict[str, Tensor] = {}
        for kind, optimizer in self._all.items():
            for parameter, values in optimizer.state.items():
                for key, value in values.items():
                    name = f"{kind}/{self._names[parameter]}/{key}"
                    found[name] = whole(value if isinstance(value, Tensor) else torch.tensor(value))
        return found

    def load(self, state: dict[str, Tensor]) -> None:
        """Take a state that `state` gave, whatever the ranks were. KeyError for unknown names."""
        by_name = {name: p for p, name in self._names.items()}
        for path, value in state.items():
            kind, name, key = path.split("/")
            parameter = by_name[name]
            self._all[kind].state[parameter][key] = _like(value, parameter)


def _like(value: Tensor, parameter: Any) -> Tensor:
    """On the parameter's device and, if it has the parameter's shape, in its placement."""
    value = value.to(parameter.device)
    if isinstance(parameter, DTensor) and value.shape == parameter.shape:
        return distribute_tensor(value, parameter.device_mesh, parameter.placements)
    return value


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor, spread over ranks or not, on the CPU. A collective where it is
    spread."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().cpu().contiguous()


def module_state(module: nn.Module) -> dict[str, Tensor]:
    """Whole parameters and buffers of a checkpoint, on the CPU. Every rank must call it."""
    return {name: whole(tensor) for name, tensor in module.state_dict().items()}
