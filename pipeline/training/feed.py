"""What sees to it that the rows of the next steps have their states."""

from __future__ import annotations

from typing import Protocol

from .plan import Place, Plan


class EndEarly(Exception):
    """The operator wants the phase to end with what is there."""


class Feed(Protocol):
    """Every rank has one, and calls it when the others do."""

    def begin(self, plan: Plan, place: Place, steps: int) -> int | None:
        """Make the states of the next steps available, of `steps` at most; gives the pack of the
        epoch before which they end, or None when all there are will do. Stopped and EndEarly on all
        ranks alike; what was made is kept."""
        ...

    def end(self) -> None:
        """What `begin` made is no longer needed: a checkpoint that is on disk is beyond it."""
        ...


class Whole:
    """All rows always have their states."""

    def begin(self, plan: Plan, place: Place, steps: int) -> int | None:
        """Nothing to be done."""
        return None

    def end(self) -> None:
        """Nothing to be done."""
