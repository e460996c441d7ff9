"""Log lines with the stamp and the markers of SGLang's, so that one reader serves both."""

from __future__ import annotations

import logging
import sys

FORMAT = "[%(asctime)s] %(message)s"
STAMP = "%Y-%m-%d %H:%M:%S"


def setup() -> None:
    """Log to stderr, one stamped line per record."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT, STAMP))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # One line per request of a client that asks several times a second helps nobody.
    logging.getLogger("httpx").setLevel(logging.WARNING)
