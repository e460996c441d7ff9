"""A `RunClient` that answers from a run directory as of the replay's time, and takes no orders.

All reading happens in one thread of its own, so that the screen never waits for a disk, and nothing
is ever written to the directory.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from eagle_tui import snapshots
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import (
    CommandStatus,
    Estimate,
    Event,
    History,
    Launch,
    Mark,
    Preview,
    Status,
    Tuning,
)
from eagle_tui.reader.files import RunFiles
from eagle_tui.records import JournalPage, JournalQuery
from eagle_tui.replay.opened import Opened
from eagle_tui.replay.timeline import Timeline, neighbour
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.archive import Archive
from eagle_tui.supervisor.store import Store, StoreError

T = TypeVar("T")

GAP_S = 1.2 * snapshots.QUIET_S
"""A snapshot that is older than this was the last one: no supervisor was there then."""
MOST_MARKS = 10_000
READONLY = "This is a replay: it shows what was, and takes no orders."


class Recording:
    """An open run directory: what it holds, and from when to when. Used in one thread."""

    def __init__(self, run: RunDir, *, live: bool) -> None:
        self.run = run
        self._opened = Opened(run.state, live=live)
        self.store: Store = self._opened.store
        self.archive = Archive(run, self.store)
        span = self.store.snapshot_span()
        if span is None:
            self.close()
            raise ClientError(
                f"{run.state}: no snapshots of the run are in it, so there is nothing to replay; "
                f"`eagle-tui status {run.root}` shows how it ended"
            )
        self.start, self.end = span
        self._last: tuple[float, Status] | None = None

    def close(self) -> None:
        """Give the file back."""
        self._opened.close()

    def status(self, at: float) -> Status:
        """How the run stood at Unix time `at`: the last snapshot before, brought forward."""
        found = self.store.snapshot(max(at, self.start))
        assert found is not None
        t, body = found
        if self._last is None or self._last[0] != t:
            self._last = (t, snapshots.unpack(body))
        status = self._last[1]
        gap = max(0.0, at - t)
        if gap > GAP_S:
            if status.supervisor.state == "stopped":
                return status
            supervisor = status.supervisor.model_copy(update={"state": "gone"})
            return status.model_copy(update={"supervisor": supervisor})
        elapsed = status.run.elapsed_s
        run = status.run.model_copy(
            update={"elapsed_s": None if elapsed is None else elapsed + gap}
        )
        return status.model_copy(update={"at": t + gap, "run": run})


class ReplayClient(RunFiles):
    """Answers as the run would have at `timeline.now()`. Open it with `open`, and `close` it."""

    def __init__(
        self, thread: ThreadPoolExecutor, recording: Recording, timeline: Timeline
    ) -> None:
        super().__init__(recording.run, timeline.now)
        self._thread = thread
        self._recording = recording
        self.timeline = timeline
        self.readonly = READONLY

    @classmethod
    def open(
        cls, run: RunDir, make_timeline: Callable[[float, float], Timeline], *, live: bool = False
    ) -> ReplayClient:
        """Open a run directory; `make_timeline` is given the times of its first and last
        snapshot, and its ValueError is passed on. `live`: a supervisor has it now. ClientError with
        a sentence when it cannot be replayed."""
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replay")
        try:
            recording = thread.submit(Recording, run, live=live).result()
        except (StoreError, OSError, sqlite3.Error) as error:
            thread.shutdown()
            raise ClientError(_sentence(error)) from error
        except ClientError:
            thread.shutdown()
            raise
        try:
            timeline = make_timeline(recording.start, recording.end)
        except ValueError:
            thread.submit(recording.close).result()
            thread.shutdown()
            raise
        return cls(thread, recording, timeline)

    async def close(self) -> None:
        """Close the file and end the thread."""
        await self.close_files()
        self._thread.submit(self._recording.close).result()
        self._thread.shutdown()

    async def _ask(self, question: Callable[[Recording, float], T]) -> T:
        """Ask the recording as of now, in its thread."""
        at = self.timeline.now()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, question, self._recording, at)
        except (OSError, sqlite3.Error, ValueError) as error:
            raise ClientError(_sentence(error)) from error

    async def status(self) -> Status:
        """The run as it was."""
        return await self._ask(lambda recording, at: recording.status(at))

    async def events(self, after: int, limit: int) -> list[Event]:
        """What had happened by then."""
        return await self._ask(lambda recording, at: recording.archive.events(after, limit, at))

    async def journal(self, query: JournalQuery) -> JournalPage:
        """Events and commands until then."""
        return await self._ask(lambda recording, at: recording.archive.journal(query, at))

    async def history(
        self, series: str, since: float, step_s: float, until: float | None = None
    ) -> History:
        """A metric until then."""
        return await self._ask(
            lambda recording, at: recording.archive.history(
                series, since, step_s, recording.end, at if until is None else min(until, at)
            )
        )

    async def series(self) -> list[str]:
        """The names of all metrics."""
        return await self._ask(lambda recording, _: recording.archive.series())

    async def marks(self, since: float) -> list[Mark]:
        """Moments until then."""
        return await self._ask(lambda recording, at: recording.archive.marks(since, MOST_MARKS, at))

    async def estimates(self) -> list[Estimate]:
        """What was estimated by then."""
        return await self._ask(lambda recording, at: recording.archive.estimates(at))

    async def launches(self, server: str | None = None, limit: int = 200) -> list[Launch]:
        """Launches of servers until then."""
        return await self._ask(lambda recording, at: recording.archive.launches(server, limit, at))

    async def neighbour_mark(self, forward: bool) -> Mark | None:
        """The next mark after now, or the one before; None when there is none."""

        def find(recording: Recording, at: float) -> Mark | None:
            marks = recording.archive.marks(recording.start, MOST_MARKS)
            index = neighbour([mark.at for mark in marks], at, forward)
            return None if index is None else marks[index]

        return await self._ask(find)

    async def tuning(self, server: str) -> Tuning:
        """Nothing can be retuned of the past."""
        return Tuning(server=server, note="This is a replay: it takes no orders.")

    async def report(self) -> str:
        """Refused: a replay writes nothing."""
        raise ClientError(
            f"A replay writes nothing into the run; `eagle-tui report {self._recording.run.root}` "
            "writes a report of how it ended."
        )

    async def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        """Refused."""
        return Preview(allowed=False, sentence=self.readonly)

    async def command(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        """Refused."""
        at = self.timeline.now()
        return CommandStatus(
            id="replay", verb=verb, args=args, state="refused", at=at, reason=self.readonly
        )


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)
