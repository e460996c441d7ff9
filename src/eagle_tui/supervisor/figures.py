"""What the event logs of the workers say, added up: the supervisor's view of each phase."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eagle_tui import lengths
from eagle_tui.clock import Clock
from eagle_tui.eta import RateWindow
from eagle_tui.rundir.jsonl import Tail
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import recall
from eagle_tui.supervisor.dataset_figures import DatasetFigures, sum_rate
from eagle_tui.supervisor.remaining import Pace, Timeline

RATE_SPAN_S = 120.0
"""Window of a dataset's own rates: long enough for a heavy tail, short enough to see a change."""
READ_ROWS = 5000
"""Lines of an event log that are in memory at once: those of a large run are never given back."""


@dataclass
class Endpoint:
    """One endpoint as the generate worker sees it."""

    in_flight: int = 0
    limit: float | None = None
    failures: int = 0
    told_tokens: float = 0.0
    tokens: RateWindow = field(default_factory=RateWindow)
    answers: RateWindow = field(default_factory=RateWindow)


@dataclass
class Flow:
    """What the generate worker says it is doing."""

    mode: str = ""
    seq: int = -1
    reason: str = ""
    oldest_s: float | None = None
    endpoints: dict[str, str] = field(default_factory=dict)


@dataclass
class WorkerView:
    """One attempt's event log, as far as it was read."""

    phase: str
    attempt: int
    tail: Tail
    pid: int | None = None
    bad_lines: int = 0
    done: int | None = None
    total: int | None = None
    unit: str = ""
    detail: str = ""
    flow: Flow = field(default_factory=Flow)
    outcome: str = ""
    reason: str = ""
    progressed: bool = False
    """Whether this attempt got anything done: a death after that does not count as one in a row."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    """The newest value of what the phase measures of itself."""
    pace: RateWindow = field(default_factory=sum_rate)
    """Items per second of a phase that counts them."""
    timeline: Timeline = field(default_factory=Timeline)
    last_wall: float | None = None
    """Unix time of the newest line: until then the worker surely lived."""
    last_at: float | None = None
    """Monotonic time of the last sign of progress."""


@dataclass(frozen=True)
class Note:
    """Something a worker wants the operator to read."""

    at: float
    phase: str
    severity: str
    text: str


class Figures:
    """Reads the event logs of the current attempts and keeps the sums."""

    def __init__(self, run: RunDir, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self.workers: dict[str, WorkerView] = {}
        self.datasets: dict[str, DatasetFigures] = {}
        self.total = DatasetFigures()
        """All datasets together; `prompts` and `in_flight` are not kept there."""
        self.produced = RateWindow()
        """Tokens as they are made, those of answers in flight included."""
        self._made = 0.0
        self._catching_up = False
        self._paces: dict[str, Pace] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.notes: list[Note] = []

    def dataset(self, name: str) -> DatasetFigures:
        """The figures of a dataset, made on first use."""
        figures = self.datasets.get(name)
        if figures is None:
            figures = self.datasets[name] = DatasetFigures()
        return figures

    def follow(self, phase: str, attempt: int) -> WorkerView:
        """From now on read the log of this attempt; its earlier lines are read, too."""
        before = self.pace(phase)
        if before is not None:
            self._paces[phase] = before
        view = WorkerView(phase, attempt, Tail(self._run.events(phase, attempt)))
        view.last_at = self._clock.monotonic()
        self.workers[phase] = view
        # What is there already is no speed: it is read before any rate is taken.
        self._catching_up = True
        while self._read(view):
            pass
        self._catching_up = False
        return view

    def take_counts(self, phase: str, counts: dict[str, Any]) -> None:
        """Take what the phase's manifest counts of its datasets, where no event log is left."""
        if phase == "prepare":
            for name, item in counts.items():
                self.dataset(name).prompts = recall.prompts(item)
        elif phase == "generate":
            for told in recall.datasets(counts):
                self._baseline(phase, told)

    def pace(self, phase: str) -> Pace | None:
        """How fast the phase went in its newest attempt that tells; None when none does."""
        view = self.workers.get(phase)
        return (view.timeline.pace() if view else None) or self._paces.get(phase)

    def _read(self, view: WorkerView) -> int:
        """Take what is new in one log; gives how many lines."""
        events = view.tail.read(READ_ROWS)
        for event in events:
            try:
                self._take(view, event)
            except (KeyError, TypeError, ValueError) as error:
                view.bad_lines += 1
                text = f"a line of its event log cannot be used ({type(error).__name__}: {error})"
                if view.bad_lines == 1:
                    self.notes.append(Note(self._clock.wall(), view.phase, "warning", text))
        return len(events)

    def poll(self) -> None:
        """Read what is new in every log that is followed, and move the rates on."""
        for view in self.workers.values():
            while self._read(view) >= READ_ROWS:
                pass
        mono = self._clock.monotonic()
        for view in self.workers.values():
            if view.done is not None and not view.outcome:
                view.pace.add(mono, view.done, active=True)
        generate = self.workers.get("generate")
        running = generate is not None and not generate.outcome
        active = running and generate is not None and generate.flow.mode in ("running", "draining")
        for figures in self.datasets.values():
            busy = active and figures.in_flight > 0
            figures.results.add(mono, figures.done, active=busy)
            figures.token_rate.add(mono, figures.tokens, active=busy)
        self.total.results.add(mono, self.total.done, active=active)
        self.total.token_rate.add(mono, self.total.tokens, active=active)
        self.produced.add(mono, self._made, active=active)

    def _take(self, view: WorkerView, event: dict[str, Any]) -> None:
        kind = event.get("e")
        view.last_wall = event.get("at", view.last_wall)
        if kind == "result":
            self._result(event)
            self._progress(view)
        elif kind == "dataset":
            self._baseline(view.phase, event)
        elif kind == "progress":
            done, total = _count(event.get("done")), _count(event.get("total"))
            if done != view.done:
                self._progress(view)
            view.done, view.total = done, total
            view.timeline.progress(float(event["at"]), event)
            view.unit, view.detail = event.get("unit", ""), event.get("detail", "")
        elif kind == "flow":
            view.flow = Flow(
                mode=event.get("mode", ""),
                seq=event.get("seq", -1),
                reason=event.get("reason", ""),
                oldest_s=event.get("oldest_s"),
                endpoints=event.get("endpoints") or {},
            )
            in_flight = event.get("in_flight") or {}
            for name, figures in self.datasets.items():
                figures.in_flight = int(in_flight.get(name, 0))
        elif kind == "begun":
            for name, told in (event.get("datasets") or {}).items():
                self.dataset(name).begun = lengths.from_json(told)
        elif kind == "load":
            self._load(view, event.get("endpoints") or {})
        elif kind == "metric":
            self._progress(view)
            view.metrics.update(event.get("values") or {})
        elif kind == "note":
            self.notes.append(
                Note(event["at"], view.phase, event.get("severity", "info"), event["text"])
            )
        elif kind == "start":
            # A worker started by hand may go on in the log of the one before it.
            view.pid, view.outcome, view.reason = event.get("pid"), "", ""
            view.timeline = Timeline(float(event["at"]))
        elif kind == "end":
            view.outcome, view.reason = event.get("outcome", ""), event.get("reason", "")
            if view.phase == "generate":
                for figures in self.datasets.values():
                    figures.in_flight = 0
                self.endpoints.clear()

    def _progress(self, view: WorkerView) -> None:
        view.progressed = True
        view.last_at = self._clock.monotonic()

    def _result(self, event: dict[str, Any]) -> None:
        self.dataset(event["ds"]).add(event)
        self.total.add(event)

    def _load(self, view: WorkerView, told: dict[str, Any]) -> None:
        """What the endpoints did for the worker; those not named are gone."""
        mono = self._clock.monotonic()
        self.endpoints = {name: self.endpoints.get(name, Endpoint()) for name in told}
        for name, figures in self.endpoints.items():
            load = told[name]
            figures.in_flight, figures.failures = int(load["in_flight"]), int(load["failures"])
            figures.limit = load.get("limit")
            tokens = float(load["tokens"])
            grown = tokens - figures.told_tokens
            figures.told_tokens = tokens
            if grown > 0:
                # Long answers that are still being written are progress, too.
                self._progress(view)
            if self._catching_up:
                continue
            # A count that fell is that of another worker, which began anew.
            self._made += grown if grown >= 0 else tokens
            figures.tokens.add(mono, float(load["tokens"]), active=True)
            figures.answers.add(mono, float(load["answers"]), active=True)

    def _baseline(self, phase: str, event: dict[str, Any]) -> None:
        figures = self.dataset(event["name"])
        figures.prompts = int(event["prompts"])
        if phase != "generate":
            # Preparing again changes how many prompts there are, not which responses.
            return
        figures.restart(event)
        self.total.add_up(self.datasets.values())

    def drop_notes(self, until: float) -> None:
        """Forget the notes up to that Unix time: a supervisor before us told them."""
        self.notes = [note for note in self.notes if note.at > until]

    def take_notes(self) -> list[Note]:
        """The notes since the last call."""
        notes, self.notes = self.notes, []
        return notes


def _count(value: object) -> int | None:
    """A count that a worker told. TypeError: it is none."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"not a count: {value!r:.40}")
    return value
