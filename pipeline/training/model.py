"""One module call per training step, as data-parallel wrappers want it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..drafter.loss import TargetHead, Targets, head_loss
from ..drafter.module import Drafter
from ..drafter.ttt import Rows, draft_states


class TrainingModel(nn.Module):
    """The drafter, all its training-time steps and the loss."""

    def __init__(self, drafter: Drafter, head: TargetHead, steps: int, dtype: torch.dtype) -> None:
        """`dtype` is that of the computation; parameters stay in float32."""
        super().__init__()
        self.drafter = drafter
        self.steps = steps
        self.dtype = dtype
        self._head = head

    def forward(
        self, rows: Rows, targets: Targets, row_weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss (scalar with gradient, unless gradients are off), hits bool [steps, n] and alpha
        [steps, n] (zero with gradients), as in `Outcome`."""
        device = rows.aux.device.type
        mixed = self.dtype != torch.float32
        with torch.autocast(device, dtype=self.dtype if mixed else None, enabled=mixed):
            states = draft_states(self.drafter, rows, self.steps, dtype=self.dtype)
            found = head_loss(
                self.drafter,
                states,
                targets,
                self._head,
                row_weights,
                gradient=torch.is_grad_enabled(),
            )
        return found.loss, found.hits, found.alpha
