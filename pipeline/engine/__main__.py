"""``python -m eagle_tui.pipeline.engine``: serve a model."""

from __future__ import annotations

import os
import sys

from .config import parse_arguments
from .logs import setup
from .runner import ModelError
from .server import serve


def main(argv: list[str] | None = None) -> int:
    """Run the server; 0 after a signal, 1 when it crashed, 2 when it cannot start as asked, 3
    when its port is taken."""
    config = parse_arguments(argv)
    setup()
    try:
        return serve(config)
    except (ModelError, ValueError) as error:
        print(f"eagle-tui engine: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # The daemon thread may be inside a forward pass; do not wait for torch to unwind it.
    os._exit(code)
