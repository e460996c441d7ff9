"""Phase 5: train the drafter.

`python -m eagle_tui.pipeline.train RUN`

With train.nproc above 1 this process starts that many ranks by torchrun and follows them. On more
than one machine start it on each by torchrun itself, all with the same RUN on a shared disk:

`torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST:PORT -m eagle_tui.pipeline.train RUN`
"""

from __future__ import annotations

import sys

from .torchrun.launch import run_ranks
from .torchrun.rank import entry, under_torchrun
from .worker import Worker

PHASE = "train"
MODULE = "eagle_tui.pipeline.train"


def body(worker: Worker) -> None:
    """Train on one rank here, or follow several."""
    nproc = worker.config.train.nproc
    if nproc > 1 and not under_torchrun():
        run_ranks(worker, nproc, MODULE)
    else:
        share(worker, 0)


def share(worker: Worker, rank: int) -> None:
    """Train as one rank of several, or the only one."""
    # Imported here: who only follows ranks needs no torch.
    from .training.session import train

    train(worker, quiet=rank != 0)


if __name__ == "__main__":
    sys.exit(entry(PHASE, body, share))
