"""What the event logs of the workers say, added up: the supervisor's view of each phase."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eagle_tui import lengths
from eagle_tui.clock import Clock
from eagle_tui.eta import RateWindow
from eagle_tui.lengths import Expected
from eagle_tui.protocol import HISTOGRAM_EDGES, LengthFigures
from eagle_tui.rundir.jsonl import Tail
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import recall
from eagle_tui.supervisor.remaining import Pace, Timeline


def sum_rate() -> RateWindow:
    """The rate of a sum over responses: `retry` takes some away, which is no negative speed."""
    return RateWindow(counter=False)


RATE_SPAN_S = 120.0
"""Window of a dataset's own rates: long enough for a heavy tail, short enough to see a change."""


SHARES = (0.5, 0.9, 0.95, 0.99)
"""Of the responses: which quantiles of their lengths are told."""
READ_ROWS = 5000
"""Lines of an event log that are in memory at once: those of a large run are never given back."""
BUCKET_S = 60.0
BUCKETS = 60


@dataclass
class Bucket:
    """Responses of one minute."""

    lengths: Counter[int] = field(default_factory=Counter)
    reasoned: int = 0
    reasoning_tokens: int = 0

    def add(self, other: Bucket) -> None:
        """Take another one's responses in."""
        self.lengths.update(other.lengths)
        self.reasoned += other.reasoned
        self.reasoning_tokens += other.reasoning_tokens


class LastHour:
    """Responses by the minute in which they finished (Unix time): bounded, however many come."""

    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._added = 0

    def version(self, now: float) -> tuple[int, int]:
        """While this stays the same, so does the total."""
        return self._added, int(now // BUCKET_S)

    def add(self, at: float, tokens: int, reasoning_tokens: int) -> None:
        """One response."""
        self._added += 1
        minute = int(at // BUCKET_S)
        bucket = self._buckets.get(minute)
        if bucket is None:
            bucket = self._buckets[minute] = Bucket()
            newest = max(self._buckets)
            self._buckets = {m: b for m, b in self._buckets.items() if m > newest - BUCKETS}
        bucket.lengths[tokens] += 1
        bucket.reasoned += reasoning_tokens > 0
        bucket.reasoning_tokens += reasoning_tokens

    def total(self, now: float) -> Bucket:
        """All of the last hour."""
        found, minute = Bucket(), int(now // BUCKET_S)
        for then, bucket in self._buckets.items():
            if minute - BUCKETS < then <= minute:
                found.add(bucket)
        return found


@dataclass
class Endpoint:
    """One endpoint as the generate worker sees it."""

    in_flight: int = 0
    limit: float | None = None
    failures: int = 0
    told_tokens: float = 0.0
    tokens: RateWindow = field(default_factory=RateWindow)
    answers: RateWindow = field(default_factory=RateWindow)


class LengthSummary(NamedTuple):
    """Mean and quantiles (SHARES) of lengths; None when there are none."""

    mean: float | None
    quantiles: list[float] | None
    histogram: tuple[int, ...] = ()
    """By HISTOGRAM_EDGES."""


@dataclass
class DatasetFigures:
    """One dataset, over all attempts."""

    prompts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    reasoned: int = 0
    reasoning_tokens: int = 0
    hour: LastHour = field(default_factory=LastHour)
    in_flight: int = 0
    begun: Counter[int] = field(default_factory=Counter)
    """Responses in flight or held, by their tokens so far, as the worker last told."""
    results: RateWindow = field(default_factory=sum_rate)
    token_rate: RateWindow = field(default_factory=sum_rate)
    told_hour: tuple[tuple[int, int], LengthFigures | None] | None = None
    """The last hour as it was told, with the version of it."""
    _summary: tuple[tuple[int, int], LengthSummary] | None = None
    _expected: tuple[tuple[int, int, int], Counter[int], Expected] | None = None

    def summary(self) -> LengthSummary:
        """Mean and quantiles of the lengths, counted anew when there are others: with thousands of
        different lengths that takes milliseconds, and most datasets stand still."""
        version = (self.stored, self.tokens)
        if self._summary is None or self._summary[0] != version:
            found = lengths.quantiles(self.lengths, SHARES)
            bars = lengths.histogram(self.lengths, HISTOGRAM_EDGES)
            self._summary = version, LengthSummary(lengths.mean(self.lengths), found, bars)
        return self._summary[1]

    def expected(self, longest: int) -> Expected:
        """What the lengths lead to expect; worked out when there are others, as in `summary`."""
        version = (self.stored, self.tokens, longest)
        if self._expected is None or self._expected[:2] != (version, self.begun):
            found = lengths.expected(self.lengths, self.begun, longest)
            self._expected = version, self.begun, found
        return self._expected[2]

    @property
    def done(self) -> int:
        """Prompts with a final state."""
        return sum(self.states.values())

    @property
    def stored(self) -> int:
        """Responses that are stored: what is done without the dead letters."""
        return sum(self.lengths.values())

    def restart(self, event: dict[str, Any]) -> None:
        """Take the whole truth of a worker that opened the dataset."""
        self.states = Counter(event.get("states") or {})
        self.tokens = int(event.get("tokens", 0))
        self.lengths = lengths.from_json(event.get("lengths") or {})
        self.reasoned = int(event.get("reasoned", 0))
        self.reasoning_tokens = int(event.get("reasoning_tokens", 0))
        self.begun = Counter()

    def add(self, event: dict[str, Any]) -> None:
        """Take one prompt's final state in."""
        self.states[event["state"]] += 1
        if not event.get("stored", event["state"] not in ("failed", "over_context")):
            return
        tokens, reasoning = int(event.get("ct", 0)), int(event.get("rt") or 0)
        self.tokens += tokens
        self.lengths[tokens] += 1
        self.reasoned += reasoning > 0
        self.reasoning_tokens += reasoning
        self.hour.add(float(event["at"]), tokens, reasoning)


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
        total, every = self.total, list(self.datasets.values())
        total.states = sum((f.states for f in every), Counter())
        total.lengths = sum((f.lengths for f in every), Counter())
        total.tokens = sum(f.tokens for f in every)
        total.reasoned = sum(f.reasoned for f in every)
        total.reasoning_tokens = sum(f.reasoning_tokens for f in every)

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
