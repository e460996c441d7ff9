"""Phases that use transformers for its tokenizers alone do without torch.

transformers imports torch wherever it is installed, also to read a tokenizer: two thirds of such a
phase's start, and a quarter of a gigabyte.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .worker import Worker

_QUIET = "TRANSFORMERS_NO_ADVISORY_WARNINGS"


def without_torch(body: Callable[[Worker], None]) -> Callable[[Worker], None]:
    """`body`, with torch hidden from transformers. For a process of its own, as transformers can
    load no model in it afterwards. Code that a model brings along (target.trust_remote_code) may
    want torch, so there nothing is hidden."""

    def run(worker: Worker) -> None:
        if not worker.config.target.trust_remote_code and "torch" not in sys.modules:
            _hide()
        body(worker)

    return run


def _hide() -> None:
    """Have transformers look for torch, once and for all, while there seems to be none."""
    before = os.environ.get(_QUIET)
    os.environ[_QUIET] = "1"  # else it says that torch is missing
    sys.modules["torch"] = None  # type: ignore[assignment] # what importlib takes for "not there"
    try:
        from transformers.utils.import_utils import is_torch_available

        is_torch_available()
    finally:
        del sys.modules["torch"]
        if before is None:
            del os.environ[_QUIET]
        else:
            os.environ[_QUIET] = before
