"""What can be told of a run from its directory alone: the same for a live run and for a replay.

The supervisor's socket answers these questions through an `Archive`, and so does a replay, which
has the directory and nobody to ask. Every question takes `until`, a Unix time after which nothing
is told.
"""

from __future__ import annotations

from eagle_tui import history
from eagle_tui.protocol import Estimate, Event, History, Launch, Mark, Sample
from eagle_tui.reader.samples import SampleReader
from eagle_tui.records import JournalPage, JournalQuery
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.past import FOR_EVER
from eagle_tui.supervisor.store import Store


class Archive:
    """Answers from the run directory. Nothing here writes."""

    def __init__(self, run: RunDir, store: Store) -> None:
        self._samples = SampleReader(run)
        self._store = store

    def samples(self, dataset: str | None, kind: str, limit: int) -> list[Sample]:
        """Stored responses, see `RunClient.samples`. ValueError for an unknown dataset or kind."""
        return self._samples.samples(dataset, kind, limit)

    def events(self, after: int, limit: int, until: float = FOR_EVER) -> list[Event]:
        """The run's history, see `RunClient.events`."""
        return self._store.events(after, limit, until)

    def journal(self, query: JournalQuery, until: float = FOR_EVER) -> JournalPage:
        """Events and commands in pages, see `RunClient.journal`."""
        return self._store.journal(query, until)

    def history(
        self, series: str, since: float, step_s: float, now: float, until: float | None = None
    ) -> History:
        """A metric over time, see `RunClient.history`."""
        return history.query(self._store, series, since, step_s, now, until)

    def series(self) -> list[str]:
        """The names of all metrics."""
        return sorted(self._store.series())

    def marks(self, since: float, limit: int, until: float = FOR_EVER) -> list[Mark]:
        """Moments that charts show."""
        return self._store.marks(since, limit, until)

    def launches(self, server: str | None, limit: int, until: float = FOR_EVER) -> list[Launch]:
        """Launches of servers, see `RunClient.launches`."""
        found = self._store.servers.launches(server, limit)
        return [_as_of(launch, until) for launch in found if launch.launched_at <= until]

    def estimates(self, until: float = FOR_EVER) -> list[Estimate]:
        """What was estimated of the phases."""
        return [e for e in self._store.estimates() if e.at <= until]


def _as_of(launch: Launch, until: float) -> Launch:
    """A launch as it was known then."""
    if launch.ended_at is None or launch.ended_at <= until:
        return launch
    ready = launch.ready_at if launch.ready_at is not None and launch.ready_at <= until else None
    return launch.model_copy(
        update={
            "ready_at": ready,
            "start_s": None if ready is None else launch.start_s,
            "ended_at": None,
            "outcome": "running",
            "reason": "",
            "remedy": "",
            "effect": "",
        }
    )
