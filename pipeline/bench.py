"""Phase 6, bench: is the drafter worth having? With and without it, on prompts never trained on.

`python -m eagle_tui.pipeline.bench RUN`. The engine is our reference decoder, or SGLang.
"""

from __future__ import annotations

import sys

from eagle_tui.rundir import manifest

from .worker import Worker, main


def body(worker: Worker) -> None:
    """Run the phase."""
    inputs = manifest.inputs_of(worker.config, worker.run, "bench")
    if worker.config.bench.engine == "sglang":
        from .benchmark.served import Served

        Served(worker).run(inputs)
        return
    from .benchmark.reference import Reference

    Reference(worker).run(inputs)


if __name__ == "__main__":
    sys.exit(main("bench", body))
