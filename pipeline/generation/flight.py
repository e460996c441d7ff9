"""One request in flight."""

from __future__ import annotations

import asyncio
from array import array
from dataclasses import dataclass, field
from typing import Literal

from .jobs import Job
from .pool import Member
from .work import DatasetWork

Ending = Literal["hold", "drop", "stall"]
"""Why we end a request ourselves. hold, stall: its tokens are kept; drop: they are not."""


@dataclass(eq=False, slots=True)
class Flight:
    """One request in flight."""

    work: DatasetWork
    job: Job
    member: Member
    started: float
    task: asyncio.Task[None] | None = None
    landed: asyncio.Event = field(default_factory=asyncio.Event)
    rid: str = ""
    asked: int = 0
    streamed: array[int] | None = None
    """Tokens that a stream has brought so far, without those of earlier pieces."""
    ended: float = 0.0
    """When its answer came, by the monotonic clock."""
    ending: Ending | None = None
    answered: bool = False
    """It brought a whole answer, which waits to be taken apart; nothing is on the server."""

    def ended_by_us(self) -> bool:
        """Do we end it before it has an answer?"""
        return self.ending is not None

    def whole(self, new: array[int]) -> array[int]:
        """The answer so far with these new tokens."""
        return new if self.job.so_far is None else self.job.so_far + new

    def grow(self, new: array[int]) -> None:
        """These new tokens become part of the answer so far, to be continued by another request."""
        self.job.so_far = self.whole(new)
        self.job.pieces += 1
        self.streamed = None
