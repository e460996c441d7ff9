"""Phase 2, generate: the target writes the response of every prompt.

`python -m eagle_tui.pipeline.generate RUN`. Resumes by the ids of the stored responses; follows
desired.json; SIGTERM ends what is in flight, keeps its tokens, and exits with 0.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from .generation import origin
from .generation.runner import Runner
from .generation.speech import Speech, load_speech
from .tokenizing import without_torch
from .worker import Worker, main


def body(worker: Worker, load: Callable[[RunConfig, RunDir], Speech] = load_speech) -> None:
    """Run the phase. Raises as `worker.main` expects it."""
    origin.check(worker.config, worker.run)
    speech = load(worker.config, worker.run)
    worker.check_stop()

    async def run() -> None:
        await Runner(worker, speech).run()

    asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main("generate", without_torch(body)))
