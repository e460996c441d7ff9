"""Phase 4, extract: the target's hidden states of every training row.

`python -m eagle_tui.pipeline.extract RUN`, or under `torchrun` for ranks on several machines that
share the run directory. With `extract.nproc` above one, the ranks of this machine are started by
torchrun. Resumes by the ids of the stored rows, whatever the number of ranks was or is; SIGTERM
finishes the batch, writes what is there, and exits with 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

from eagle_tui.clock import SystemClock
from eagle_tui.config import ConfigError
from eagle_tui.rundir.paths import RunDir

from .extraction.launch import run_ranks
from .extraction.team import Team, under_torchrun
from .worker import Failed, Refused, Stopped, Worker, main, next_attempt, settings

MODULE = "eagle_tui.pipeline.extract"


def body(worker: Worker) -> None:
    """Run the phase as its first rank, or its only one."""
    if worker.config.extract.backend == "sglang":
        from .extraction.served import ServedLead

        ServedLead(worker, Team.join()).run()
        return
    from .extraction.lead import Lead

    Lead(worker, Team.join()).run()


def follow(run: RunDir) -> int:
    """One of the other ranks: do the share that the first one gives, and say when it is done."""
    from .extraction.job import Post
    from .extraction.lead import open_rank
    from .extraction.task import Task, look_up

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    config, _ = settings(run)
    team = Team.join()
    try:
        task = Task.from_json(team.ask("task", stop.is_set))
        post = Post(run, config, SystemClock(), stop, team, task)
        left = look_up(config, run, task).left
        if left:
            rank = open_rank(post, lambda: None)
            rank.model = None
            rank.work(left)
    except Stopped:
        return 0
    except (Failed, Refused) as error:
        print(f"rank {team.rank}: {error}", file=sys.stderr, flush=True)
        return 1
    team.tell(f"done/{team.rank}", True)
    return 0


def entry(argv: list[str] | None = None) -> int:
    """Be what this process is meant to be: the starter of the ranks, the first of them, or another;
    gives the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}")
    parser.add_argument("run", help="run directory")
    parser.add_argument("--attempt", type=int, help="number of the attempt (default: the next one)")
    args = parser.parse_args(argv)
    run = RunDir.at(args.run)
    if under_torchrun():
        return main("extract", body, argv) if os.environ["RANK"] == "0" else follow(run)
    try:
        wanted = settings(run)[0].extract
    except ConfigError:
        return main("extract", body, argv)  # which tells it
    if wanted.nproc > 1 and wanted.backend == "transformers":
        attempt = args.attempt or next_attempt(run, "extract")
        return run_ranks(MODULE, run, "extract", attempt, wanted.nproc)
    return main("extract", body, argv)


if __name__ == "__main__":
    sys.exit(entry())
