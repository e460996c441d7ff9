"""The worker of phase 2 with the made-up language in place of a tokenizer, so that it starts fast:
`python -m tests.generation.fast_worker RUN`."""

from __future__ import annotations

import sys

from eagle_tui.pipeline.generate import body
from eagle_tui.pipeline.worker import main

from .language import speech

if __name__ == "__main__":
    sys.exit(main("generate", lambda worker: body(worker, speech)))
