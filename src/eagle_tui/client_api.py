"""What the screen and the command line ask of a run: the protocol every client fulfils.

The socket client fulfils it against a supervisor, a scripted one in tests, a replay from a finished
run. Nothing here does I/O.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from eagle_tui.protocol import (
    CommandStatus,
    Estimate,
    Event,
    History,
    Launch,
    Mark,
    Preview,
    Sample,
    Status,
)

SampleKind = Literal["newest", "longest", "truncated", "no_answer", "loop"]
SAMPLE_KINDS: tuple[SampleKind, ...] = ("newest", "longest", "truncated", "no_answer", "loop")


class ClientError(Exception):
    """No answer from the supervisor, or one that cannot be read. `str()` is the sentence to show:
    what happened, where, and what to do."""


class RunClient(Protocol):
    """Asks one run. Every method raises `ClientError` when the supervisor does not answer."""

    @property
    def readonly(self) -> str:
        """Why no order can be given, as a sentence; empty: orders are taken. A screen hides or
        refuses its acting keys by it."""
        ...

    async def status(self) -> Status:
        """The newest snapshot."""
        ...

    async def samples(self, dataset: str | None, kind: str, limit: int) -> list[Sample]:
        """At most `limit` stored responses of one dataset (None: of all), the first of `kind`
        first: the newest, or for `longest` the longest."""
        ...

    async def events(self, after: int, limit: int) -> list[Event]:
        """The newest `limit` of the events whose id is above `after`, oldest first."""
        ...

    async def history(
        self, series: str, since: float, step_s: float, until: float | None = None
    ) -> History:
        """One metric from Unix time `since` to `until` (None: now), in buckets of about `step_s`
        seconds, never finer than what is kept of that time; `History.step_s` says how large they
        are. Buckets are aligned to the wall clock. An unknown metric has no points."""
        ...

    async def series(self) -> list[str]:
        """The names of all metrics that were ever recorded, sorted (docs/status.md)."""
        ...

    async def marks(self, since: float) -> list[Mark]:
        """Moments from Unix time `since` on that charts show: pauses, retunes, crashes, phases,
        caps. The oldest first."""
        ...

    async def estimates(self) -> list[Estimate]:
        """What was estimated of each phase at moments of it, the oldest first."""
        ...

    async def launches(self, server: str | None = None, limit: int = 200) -> list[Launch]:
        """The newest `limit` launches of one server (None: of all), the oldest first."""
        ...

    async def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        """What a command would do and cost. Changes nothing."""
        ...

    async def command(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        """Give an order. What comes back is its state at once: requested, accepted or refused
        with the reason; later states stand in `Status.commands`."""
        ...
