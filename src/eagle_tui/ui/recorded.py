"""A client that answers from a recorded scene: for pictures of the screen and for tests.

A scene is the JSON of `eagle-tui status --json`, optionally with `samples`, `events`, `history`
(points by metric; a plain list is that of `tok_s`), `marks`, `estimates`, `bench_result` and
`previews` (by verb) beside its own keys.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from eagle_tui.client_api import ClientError, RunRecords
from eagle_tui.protocol import (
    CommandStatus,
    Estimate,
    Event,
    History,
    HistoryPoint,
    Launch,
    Mark,
    Preview,
    Sample,
    Status,
    Tuning,
)
from eagle_tui.records import (
    FailureCount,
    JournalEntry,
    JournalMark,
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
from eagle_tui.result import ResultRecord


class RecordedClient:
    """Answers as the run did when it was recorded; takes no orders."""

    def __init__(self, scene: dict[str, Any], records: RunRecords | None = None) -> None:
        """`records` answers what a scene does not hold: logs, tokens, the list of responses."""
        self._records = records
        self.now = Status.from_json(scene)
        self.all_samples = [Sample.model_validate(item) for item in scene.get("samples", ())]
        self.tunings = {
            name: Tuning.model_validate(item) for name, item in scene.get("tunings", {}).items()
        }
        self.all_launches = [Launch.model_validate(item) for item in scene.get("launches", ())]
        self.all_events = [Event.model_validate(item) for item in scene.get("events", ())]
        found = scene.get("history", {})
        self.histories = {
            name: [HistoryPoint.model_validate(item) for item in points]
            for name, points in (found if isinstance(found, dict) else {"tok_s": found}).items()
        }
        self.all_marks = [Mark.model_validate(item) for item in scene.get("marks", ())]
        self.all_estimates = [Estimate.model_validate(e) for e in scene.get("estimates", ())]
        self.all_failures = {
            name: [FailureCount.model_validate(item) for item in items]
            for name, items in scene.get("failures", {}).items()
        }
        self.all_phase_records = [
            PhaseRecord.model_validate(item) for item in scene.get("phase_records", ())
        ]
        self.bench_result = ResultRecord.model_validate(scene.get("bench_result", {}))
        self.previews = {
            verb: Preview.model_validate(item) for verb, item in scene.get("previews", {}).items()
        }

    @property
    def readonly(self) -> str:
        return ""

    @classmethod
    def load(cls, path: Path, records: RunRecords | None = None) -> RecordedClient:
        """Read a scene file. Raises OSError or ValueError when it is none."""
        return cls(json.loads(path.read_text(encoding="utf-8")), records)

    async def status(self) -> Status:
        return self.now

    async def samples(self, dataset: str | None, kind: str, limit: int) -> list[Sample]:
        found = [item for item in self.all_samples if dataset in (None, item.dataset)]
        if kind == "longest":
            found.sort(key=lambda item: -item.completion_tokens)
        elif kind != "newest":
            found = [item for item in found if item.state == kind]
        return found[:limit]

    @property
    def records(self) -> RunRecords:
        """What reads the run's files. ClientError when the recording has none."""
        if self._records is None:
            raise ClientError("This is a recording without the run's files.")
        return self._records

    async def find_samples(self, query: SampleQuery) -> SamplePage:
        return await self.records.find_samples(query)

    async def sample(self, dataset: str, id: str, offset: int | None = None) -> Sample:
        return await self.records.sample(dataset, id, offset)

    async def sample_tokens(self, dataset: str, id: str, offset: int | None = None) -> TokenView:
        return await self.records.sample_tokens(dataset, id, offset)

    async def log_files(self) -> list[LogFile]:
        return await self.records.log_files()

    async def log_page(self, query: LogQuery) -> LogPage:
        return await self.records.log_page(query)

    async def log_at(self, name: str, at: float) -> int | None:
        return await self.records.log_at(name, at)

    async def failures(self, dataset: str) -> list[FailureCount]:
        if self._records is not None:
            return await self._records.failures(dataset)
        return self.all_failures.get(dataset, [])

    async def phase_records(self) -> list[PhaseRecord]:
        return await self._records.phase_records() if self._records else self.all_phase_records

    async def result(self) -> ResultRecord:
        return await self._records.result() if self._records else self.bench_result

    async def events(self, after: int, limit: int) -> list[Event]:
        return [event for event in self.all_events if event.id > after][-limit:]

    async def journal(self, query: JournalQuery) -> JournalPage:
        entries = [JournalEntry(at=event.at, event=event) for event in self.all_events]
        entries += [JournalEntry(at=command.at, command=command) for command in self.now.commands]
        entries.sort(key=lambda entry: entry.at)
        first, last = 0, len(entries)
        if query.after is not None:
            first = query.after.event
            last = min(first + query.limit, last)
        else:
            last = query.before.event if query.before is not None else last
            first = max(last - query.limit, 0)
        found = tuple(entry for entry in entries[first:last] if _passes(entry, query))
        return JournalPage(
            entries=found,
            before=JournalMark(event=first, command=0),
            after=JournalMark(event=last, command=0),
            done=last == len(entries) if query.after is not None else first == 0,
        )

    async def history(
        self, series: str, since: float, step_s: float, until: float | None = None
    ) -> History:
        end = float("inf") if until is None else until
        points = tuple(p for p in self.histories.get(series, ()) if since <= p.t <= end)
        apart = (after.t - before.t for before, after in pairwise(points))
        return History(series=series, step_s=max(step_s, min(apart, default=0.0)), points=points)

    async def series(self) -> list[str]:
        return sorted(self.histories)

    async def marks(self, since: float) -> list[Mark]:
        return [mark for mark in self.all_marks if mark.at >= since]

    async def estimates(self) -> list[Estimate]:
        return self.all_estimates

    async def launches(self, server: str | None = None, limit: int = 200) -> list[Launch]:
        found = [item for item in self.all_launches if server in (None, item.server)]
        return found[-limit:]

    async def tuning(self, server: str) -> Tuning:
        unknown = Tuning(server=server, note="This is a recording: it takes no orders.")
        return self.tunings.get(server, unknown)

    async def report(self) -> str:
        raise ClientError("This is a recording: it writes no report.")

    async def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        refusal = Preview(allowed=False, sentence="This is a recording: it takes no orders.")
        return self.previews.get(verb, refusal)

    async def command(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        return CommandStatus(
            id="recorded",
            verb=verb,
            args=args,
            state="refused",
            at=self.now.at,
            reason="This is a recording: it takes no orders.",
        )


def _passes(entry: JournalEntry, query: JournalQuery) -> bool:
    """Whether an entry is wanted, as the supervisor decides it."""
    levels = ("info", "warning", "error")
    if entry.event is not None:
        severity, source, text = entry.event.severity, entry.event.source, entry.event.text
    else:
        assert entry.command is not None
        command = entry.command
        severity = "warning" if command.state == "refused" else "info"
        source = command.origin
        text = f"{command.verb} {json.dumps(command.args)} {command.reason} {command.sentence}"
    return (
        levels.index(severity) >= levels.index(query.severity or "info")
        and query.source.lower() in source.lower()
        and query.text.lower() in text.lower()
    )
