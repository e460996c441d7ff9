"""What a client answers from the run's files by itself: responses, tokens, logs.

No supervisor is asked, so that all of it can be read while there is none, and the same of a copied
run. Files are read in threads; nothing is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from eagle_tui import troubles
from eagle_tui.client_api import ClientError, NotFound
from eagle_tui.protocol import Sample
from eagle_tui.reader import failures, phases
from eagle_tui.reader.logs import LogReader, NoSuchLog
from eagle_tui.reader.samples import NoSuchDataset, NoSuchSample, SampleReader
from eagle_tui.reader.tokens import NoView, TokenDecoder
from eagle_tui.records import (
    FailureCount,
    LogFile,
    LogPage,
    LogQuery,
    PhaseRecord,
    SamplePage,
    SampleQuery,
    TokenView,
)
from eagle_tui.rundir.paths import RunDir

if TYPE_CHECKING:
    from eagle_tui.result import ResultRecord

T = TypeVar("T")


class RunFiles:
    """The part of `RunClient` that is answered from files; a base of clients."""

    def __init__(self, run: RunDir, until: Callable[[], float | None] = lambda: None) -> None:
        """`until` gives the Unix time after which no response is shown; None: now."""
        self._samples = SampleReader(run)
        self._logs = LogReader(run)
        self._tokens = TokenDecoder(run)
        self._until = until
        self._run = run

    async def find_samples(self, query: SampleQuery) -> SamplePage:
        """See `RunClient`."""
        return await self._read(lambda: self._samples.page(query, self._until()))

    async def samples(self, dataset: str | None, kind: str, limit: int) -> list[Sample]:
        """See `RunClient`."""
        return await self._read(lambda: self._samples.samples(dataset, kind, limit, self._until()))

    async def sample(self, dataset: str, id: str, offset: int | None = None) -> Sample:
        """See `RunClient`."""
        return await self._read(lambda: self._samples.sample(dataset, id, offset))

    async def where_is(self, id: str) -> tuple[str, int]:
        """Dataset and offset of the response with that id; all files are looked through. NotFound
        when there is none."""
        return await self._read(lambda: self._samples.find(id))

    async def sample_tokens(self, dataset: str, id: str, offset: int | None = None) -> TokenView:
        """See `RunClient`."""
        _, row = await self._read(lambda: self._samples.row(dataset, id, offset))
        try:
            return await self._tokens.view(row)
        except (NoView, ValueError) as error:
            raise ClientError(str(error)) from error

    async def log_files(self) -> list[LogFile]:
        """See `RunClient`."""
        return await self._read(self._logs.files)

    async def log_page(self, query: LogQuery) -> LogPage:
        """See `RunClient`."""
        return await self._read(lambda: self._logs.page(query))

    async def log_at(self, name: str, at: float) -> int | None:
        """See `RunClient`."""
        return await self._read(lambda: self._logs.at_time(name, at))

    async def failures(self, dataset: str) -> list[FailureCount]:
        """See `RunClient`."""
        return await self._read(lambda: failures.count(self._run.dead(dataset), self._until()))

    async def phase_records(self) -> list[PhaseRecord]:
        """See `RunClient`."""
        return await self._read(lambda: phases.read(self._run, self._until()))

    async def result(self) -> ResultRecord:
        """See `RunClient`."""
        from eagle_tui.reader import result  # here: few looks need it

        return await self._read(lambda: result.read(self._run, self._until()))

    async def close_files(self) -> None:
        """End what was started for reading."""
        await self._tokens.close()

    async def _read(self, work: Callable[[], T]) -> T:
        """Do it in a thread; whatever goes wrong with a file is a ClientError: a reader that meets
        what nobody thought of must not take the screen away."""
        try:
            return await asyncio.to_thread(work)
        except (NoSuchDataset, NoSuchLog, NoSuchSample) as error:
            raise NotFound(str(error)) from error
        except (OSError, ValueError) as error:
            raise ClientError(troubles.of(error).sentence) from error
        except Exception as error:
            raise ClientError(f"{self._run.root}: its files cannot be read: {error!r}") from error
