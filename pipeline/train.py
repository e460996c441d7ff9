"""Phase 5: train the drafter.

`python -m eagle_tui.pipeline.train RUN`

With train.nproc above 1 this process starts that many ranks by torchrun and follows them. On more
than one machine start it on each by torchrun itself, all with the same RUN on a shared disk:

`torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST:PORT -m eagle_tui.pipeline.train RUN`
"""

from __future__ import annotations

import os
import sys

from .training import rank
from .training.launch import run_ranks
from .training.ranks import under_torchrun
from .training.session import PHASE, train
from .worker import Worker, main

_RANK_MODULE = "eagle_tui.pipeline.training.rank"


def body(worker: Worker) -> None:
    """Train on one rank here, or follow several."""
    nproc = worker.config.train.nproc
    if nproc > 1 and not under_torchrun():
        run_ranks(worker, nproc, _RANK_MODULE)
    else:
        train(worker)


if __name__ == "__main__":
    if under_torchrun() and os.environ["RANK"] != "0":
        sys.exit(rank.main())
    sys.exit(main(PHASE, body))
