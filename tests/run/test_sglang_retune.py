"""Retunes of a real SGLang under load, some impossible, with kills on the way (the long row is
`retuning.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from harness import Run
from retuning import check, retunes, settings

pytestmark = pytest.mark.sglang

VERSION = os.environ.get("EAGLE_TUI_SGLANG_VERSION", "0.5.23")
ORDERS = {
    "max-running-requests=4": "scheduler",
    "no-such-flag-at-all=1": "",
    "context-length=99999999": "",
    "chunked-prefill-size=512": "supervisor",
}


def test_retunes_of_a_real_sglang(new_run: Callable[..., Run]) -> None:
    run = new_run(*settings(VERSION), rows=40)
    run.up()
    results = list(retunes(run, [*ORDERS], [*ORDERS.values()], load_s=1.0))
    (too_long,) = (r for r in results if r.words.startswith("context-length"))
    assert "rolled back" in too_long.reason and "context" in too_long.reason
    check(run, results)
