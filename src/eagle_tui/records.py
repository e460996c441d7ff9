"""What is read of a run's files: responses, tokens of one of them, logs, the journal.

Pages, never whole files: every answer says how far it looked and where to go on.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from eagle_tui.protocol import CommandStatus, Event, Frozen, SampleState, Severity

SampleOrder = Literal["newest", "longest", "truncated", "loop", "no_answer", "flagged"]
SAMPLE_ORDERS: tuple[SampleOrder, ...] = (
    "newest", "longest", "truncated", "loop", "no_answer", "flagged",
)  # fmt: skip
LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")


class SampleHead(Frozen):
    """A stored response as a line of a list."""

    dataset: str
    id: str
    state: SampleState
    at: float
    completion_tokens: int
    reasoning_tokens: int
    offset: int
    """Byte at which its row begins in the dataset's file."""
    title: str
    """The beginning of its last user turn."""
    flagged: bool = False


class SampleQuery(Frozen):
    """Which stored responses, and from where on."""

    order: SampleOrder = "newest"
    dataset: str | None = None
    text: str = ""
    """Only those whose prompt, reasoning or content holds it; case does not matter."""
    limit: int = 50
    cursor: dict[str, int] = Field(default_factory=dict)
    """By dataset, the byte before which to look on; a dataset left out: from its end."""
    floor: dict[str, int] = Field(default_factory=dict)
    """By dataset, the byte before which nothing is looked at: what an earlier query saw."""


class SamplePage(Frozen):
    """What one look found; a look is bounded, so there may be more even where nothing was found."""

    heads: tuple[SampleHead, ...] = ()
    """In order: the newest first, or for `longest` the longest of this stretch."""
    cursor: dict[str, int] = Field(default_factory=dict)
    """Where to look on."""
    ends: dict[str, int] = Field(default_factory=dict)
    """By dataset, the byte up to which its file was whole at this look."""
    looked: int = 0
    """Bytes looked through up to here, this look's and those before."""
    total: int = 0
    """Bytes there are."""
    done: bool = False
    """Nothing is left to look through."""
    rewritten: bool = False
    """A file is shorter than `floor`: it was written anew, and offsets no longer hold."""
    skipped: int = 0
    """Rows of this stretch that cannot be read."""


class TokenView(Frozen):
    """The tokens of one response with what merge would make of them."""

    ids: tuple[int, ...] = ()
    mask: tuple[int, ...] = ()
    """1: the token is to be predicted in training."""
    pieces: tuple[str, ...] | None = None
    """The text of each token; empty where a token is a part of a character. None: no tokenizer."""
    prompt: int = 0
    """How many of them are the prompt."""
    left_out: int = 0
    """Tokens in the middle that are not sent; they lie after the first `head` ones."""
    head: int = 0
    dropped: str = ""
    """Why merge would leave the row out; empty when it takes it."""
    note: str = ""
    """What could not be had, such as the tokenizer, and why."""


class LogFile(Frozen):
    """One log in the run directory."""

    name: str
    size: int
    modified: float
    """Unix time of its last line."""


class LogLine(Frozen):
    """One row of a log. A line of more than some kB is several rows."""

    offset: int
    text: str
    level: LogLevel | None = None
    """What it says of itself, or the line that it continues."""
    at: float | None = None
    """Unix time that stands in it."""
    updates: int = 0
    """A progress bar drawn anew by CR: how many states were passed over."""


class LogQuery(Frozen):
    """Which rows of a log, and from where on."""

    name: str
    at: int | None = None
    """A byte: the rows that begin there or after, or `backward` those that begin before. None: the
    end."""
    backward: bool = False
    rows: int = 100
    level: LogLevel | None = None
    """Only rows of this level and above."""
    text: str = ""
    """Only rows that hold it; case does not matter."""


class LogPage(Frozen):
    """Rows in the order of the file."""

    lines: tuple[LogLine, ...] = ()
    start: int = 0
    """Looking on backward begins before this byte."""
    end: int = 0
    """Looking on forward begins at this byte; the last row, while it has no end, is given again."""
    size: int = 0
    """Of the file, at this look."""
    done: bool = True
    """The file's end (backward: its beginning) was reached. False: there is more, or the bound of
    one look was reached before enough rows were found."""


class JournalMark(Frozen):
    """A place in the journal: between two entries."""

    event: int
    command: int


class JournalQuery(Frozen):
    """Which events and commands, and from where on."""

    before: JournalMark | None = None
    """Only older ones; None with `after` None: the newest."""
    after: JournalMark | None = None
    """Only newer ones, the oldest of these first in line."""
    limit: int = 200
    severity: Severity | None = None
    """Only this severity and above. A refused command counts as a warning, others as info."""
    source: str = ""
    """Only those whose source holds it."""
    text: str = ""
    """Only those whose text holds it; case does not matter."""


class JournalEntry(Frozen):
    """One event or one command."""

    at: float
    event: Event | None = None
    command: CommandStatus | None = None


class JournalPage(Frozen):
    """Entries in the order of time, the newest last."""

    entries: tuple[JournalEntry, ...] = ()
    before: JournalMark = JournalMark(event=0, command=0)
    """From here on to older ones."""
    after: JournalMark = JournalMark(event=0, command=0)
    """From here on to newer ones."""
    done: bool = True
    """There are no older ones (with `after`: no newer ones)."""


class FailureCount(Frozen):
    """One reason for which prompts of a dataset got no response."""

    state: str
    reason: str
    """As the newest row says it; rows of the same words but other numbers are counted with it."""
    rows: int
    """Attempts that ended so."""
    given_up: int
    """Prompts whose newest attempt ended so and that are not asked again."""
    last_at: float
    last_id: str


class ManifestRecord(Frozen):
    """What a finished phase made, and from what (docs/run-directory.md)."""

    made_at: float
    attempt: int
    inputs: dict[str, str] = Field(default_factory=dict)
    """Name of each thing it was made from → fingerprint."""
    counts: dict[str, Any] = Field(default_factory=dict)
    outputs: dict[str, int] = Field(default_factory=dict)
    """Path in the phase's directory → size in bytes; the first ones only."""
    files: int = 0
    bytes: int = 0
    versions: dict[str, str] = Field(default_factory=dict)
    early: str = ""
    """What was left out because the operator went on early."""


class AttemptRecord(Frozen):
    """One attempt of a phase, by its event log."""

    number: int
    began_at: float
    last_at: float | None = None
    """Unix time of its last event."""
    ended: bool = False
    """Whether that event says that it ended. False: it runs, or was killed."""
    outcome: str = ""
    reason: str = ""


class PhaseRecord(Frozen):
    """One phase: its output, None while there is none, and its attempts, the oldest first."""

    phase: str
    manifest: ManifestRecord | None = None
    attempts: tuple[AttemptRecord, ...] = ()
