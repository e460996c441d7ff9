"""The state of a sample: what an answer is worth. Pure.

| finish | content | loop at the end | state |
| --- | --- | --- | --- |
| length | any | yes | loop |
| length | any | no | truncated |
| stop | empty | any | no_answer |
| stop | some | very long | loop |
| stop | some | no | complete |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .loops import loop_period

RowState = Literal["complete", "truncated", "loop", "no_answer"]
"""States of the rows in `responses`; the other states go to the dead letters."""

STOPPED_LOOP_SPAN = 512
"""An answer that came to its end by itself is a loop only with so many repeating tokens: a user may
have asked for a hundred zeros."""


def judge(finish: Literal["stop", "length"], output_ids: Sequence[int], content: str) -> RowState:
    """State of a finished answer. `output_ids`: all of its tokens; `content`: its text without the
    thought."""
    if finish == "length":
        return "loop" if loop_period(output_ids) else "truncated"
    if not content.strip():
        return "no_answer"
    # The last token is the end of turn, which is no part of the loop.
    if loop_period(output_ids[:-1], min_span=STOPPED_LOOP_SPAN):
        return "loop"
    return "complete"
