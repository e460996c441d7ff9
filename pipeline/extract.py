"""Phase 4, extract: the target's hidden states of every training row.

`python -m eagle_tui.pipeline.extract RUN`

With extract.nproc above 1 this process starts that many ranks by torchrun and follows them. On more
than one machine start it on each by torchrun itself, all with the same RUN on a shared disk:

`torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint HOST:PORT -m eagle_tui.pipeline.extract RUN`

Resumes by the ids of the stored rows, whatever the number of ranks was or is; SIGTERM finishes the
batch, writes what is there, and exits with 0.
"""

from __future__ import annotations

import sys

from .extraction.team import Team
from .torchrun.launch import run_ranks
from .torchrun.rank import entry, under_torchrun
from .worker import Worker

PHASE = "extract"
MODULE = "eagle_tui.pipeline.extract"


def body(worker: Worker) -> None:
    """Do it all here, or as the first rank, or follow several ranks."""
    settings = worker.config.extract
    if settings.backend == "sglang":
        from .extraction.served import ServedLead

        ServedLead(worker, Team.join()).run()
    elif settings.nproc > 1 and not under_torchrun():
        run_ranks(worker, settings.nproc, MODULE, tell="all")
    else:
        lead(worker)


def lead(worker: Worker) -> None:
    """Plan, do a share, wait for the others, and finish."""
    from .extraction.lead import Lead

    Lead(worker, Team.join()).run()


def share(worker: Worker, rank: int) -> None:
    """Extract as one rank of several: the first one leads, the others do the share that it gives
    and say when it is done."""
    if rank == 0:
        lead(worker)
        return
    from .extraction.job import Post
    from .extraction.lead import open_rank
    from .extraction.task import Task, look_up

    team = Team.join()
    task = Task.from_json(team.ask("task", worker.stop.is_set))
    post = Post(worker.run, worker.config, worker.clock, worker.stop, team, task)
    left = look_up(worker.config, worker.run, task).left
    if left:
        mine = open_rank(post, lambda: None)
        mine.model = None
        mine.work(left)
    team.tell(f"done/{team.rank}", True)


if __name__ == "__main__":
    sys.exit(entry(PHASE, body, share))
