"""What the samplers of all makers have in common: a line a period until nobody reads any more."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

PERIOD_S = 1.0


def run(look: Callable[[], dict[str, Any]], period_s: float = PERIOD_S) -> int:
    """Print what `look` gives, a line each `period_s`, until standard output is closed, or after a
    line with a note or with `again`. `--once` prints a single line of figures (the second look:
    differences need two). Gives the exit code."""
    once = "--once" in sys.argv[1:]
    looks = 0
    try:
        while True:
            started = time.monotonic()
            body = look()
            looks += 1
            if not once or looks > 1 or "note" in body:
                print(json.dumps(body, allow_nan=False), flush=True)
                if once or "note" in body or body.get("again"):
                    return 0
            time.sleep(max(0.0, period_s - (time.monotonic() - started)))
    except (BrokenPipeError, KeyboardInterrupt):
        return 0
