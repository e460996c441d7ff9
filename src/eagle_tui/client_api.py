"""What the screen and the command line ask of a run: the protocol every client fulfils.

The socket client fulfils it against a supervisor, a scripted one in tests, a replay from a finished
run. Nothing here does I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

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
    Tuning,
)
from eagle_tui.records import (
    FailureCount,
    JournalPage,
    JournalQuery,
    LogFile,
    LogPage,
    LogQuery,
    PhaseRecord,
    SamplePage,
    SampleQuery,
    TokenView,
)

if TYPE_CHECKING:
    from eagle_tui.result import ResultRecord

SampleKind = Literal["newest", "longest", "truncated", "no_answer", "loop"]
SAMPLE_KINDS: tuple[SampleKind, ...] = ("newest", "longest", "truncated", "no_answer", "loop")


class ClientError(Exception):
    """No answer from the supervisor, or one that cannot be read. `str()` is the sentence to show:
    what happened, where, and what to do."""


class NotFound(ClientError):
    """What was asked for by name is not in the run."""


class RunRecords(Protocol):
    """What is answered from the run's files, also while no supervisor is there. Every method raises
    `ClientError` when they cannot be read."""

    async def samples(self, dataset: str | None, kind: str, limit: int) -> list[Sample]:
        """At most `limit` stored responses of one dataset (None: of all), the first of `kind`
        first: the newest, or for `longest` the longest."""
        ...

    async def find_samples(self, query: SampleQuery) -> SamplePage:
        """One bounded look through the stored responses; ask again with its cursor for more."""
        ...

    async def sample(self, dataset: str, id: str, offset: int | None = None) -> Sample:
        """One response, whole; `offset` is where its row was seen."""
        ...

    async def sample_tokens(self, dataset: str, id: str, offset: int | None = None) -> TokenView:
        """Its tokens, with what training would predict."""
        ...

    async def log_files(self) -> list[LogFile]:
        """The logs of all processes, the one written last first."""
        ...

    async def log_page(self, query: LogQuery) -> LogPage:
        """One bounded look through a log."""
        ...

    async def log_at(self, name: str, at: float) -> int | None:
        """The byte of a log where Unix time `at` begins; None when it holds no times."""
        ...

    async def failures(self, dataset: str) -> list[FailureCount]:
        """Why prompts of a dataset got no response, the most frequent reason first."""
        ...

    async def phase_records(self) -> list[PhaseRecord]:
        """Every phase with its output and attempts."""
        ...

    async def result(self) -> ResultRecord:
        """What the benchmark found, and where the drafter lies."""
        ...


class Playback(Protocol):
    """The time of a replay. Unix seconds; see `eagle_tui.replay.timeline`."""

    start: float
    end: float
    speed: float
    """Seconds of the run per second."""
    jumps: int
    """How often the time was set."""

    @property
    def playing(self) -> bool: ...

    def now(self) -> float: ...

    def toggle(self) -> None: ...

    def seek(self, at: float) -> None: ...

    def step(self, by: float) -> None: ...

    def faster(self) -> None: ...

    def slower(self) -> None: ...


class RunClient(RunRecords, Protocol):
    """Asks one run. Every method raises `ClientError` when the supervisor does not answer."""

    @property
    def readonly(self) -> str:
        """Why no order can be given, as a sentence; empty: orders are taken. A screen hides or
        refuses its acting keys by it."""
        ...

    async def status(self) -> Status:
        """The newest snapshot."""
        ...

    async def events(self, after: int, limit: int) -> list[Event]:
        """The newest `limit` of the events whose id is above `after`, oldest first."""
        ...

    async def journal(self, query: JournalQuery) -> JournalPage:
        """Events and commands in the order of time, page by page, through all that is kept."""
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

    async def tuning(self, server: str) -> Tuning:
        """What can be retuned of a server, and what is in force now."""
        ...

    async def report(self) -> str:
        """Write a plan document, with estimates against actuals, into RUN/reports/; gives its
        path."""
        ...

    async def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        """What a command would do and cost. Changes nothing."""
        ...

    async def command(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        """Give an order. What comes back is its state at once: requested, accepted or refused
        with the reason; later states stand in `Status.commands`."""
        ...


class PastClient(RunClient, Protocol):
    """A run as it was, at a time that can be moved."""

    @property
    def timeline(self) -> Playback:
        """The time that is shown."""
        ...

    async def neighbour_mark(self, forward: bool) -> Mark | None:
        """The next mark after that time, or the one before; None when there is none."""
        ...

    async def close(self) -> None:
        """Give back what is open."""
        ...
