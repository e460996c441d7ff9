"""What crosses the socket: frozen snapshots and commands, with the schema other programs rely on.

`Status` is the JSON of `eagle-tui status --json`. Unknown is null, never NaN. Durations are in
seconds, times are Unix seconds, memory is in bytes, shares are 0..1.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA = 1
"""Version of the socket's JSON. Grows when a field changes its meaning or goes away."""

PhaseState = Literal[
    "pending", "blocked", "running", "paused", "draining", "stalled", "failed", "done", "stale"
]
ServerState = Literal["stopped", "starting", "ready", "unready", "stopping", "failed", "attached"]
RetuneStep = Literal[
    "requested",
    "pausing",
    "stopping",
    "starting",
    "reverting",
    "ready",
    "resuming",
    "done",
    "rolled_back",
    "refused",
]
"""How far a change of a server's settings is; `reverting`: the settings before are started again.
The last three are ends."""
CommandState = Literal["requested", "accepted", "in_effect", "refused"]
Severity = Literal["info", "warning", "error"]
SampleState = Literal[
    "complete", "truncated", "no_answer", "loop", "aborted", "over_context", "failed"
]
DatasetState = Literal["pending", "running", "paused", "capped", "skipped", "done"]


class Frozen(BaseModel):
    """A snapshot: equal by value, never changed after it was made."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RunStatus(Frozen):
    name: str
    dir: str
    target: str
    started: float | None = None
    elapsed_s: float | None = None
    eta_s: tuple[float, float, float] | None = None
    """Low, middle and high estimate of the seconds left, of all phases but those in eta_without."""
    eta_without: tuple[str, ...] = ()
    """Phases that are left and of whose time nothing is known."""


class SupervisorStatus(Frozen):
    pid: int | None = None
    state: str = "running"
    version: str = ""


class PhaseExit(Frozen):
    """How the last attempt of a phase that is over ended."""

    attempt: int
    outcome: str
    """done, stopped, failed, refused, or died (without a word)."""
    at: float
    code: int | None = None
    """Exit code; null: it was killed, or nobody was there to see."""
    signal: str | None = None
    """Name of the signal that killed it, such as SIGKILL."""
    reason: str = ""

    @property
    def words(self) -> str:
        """For a person: `attempt 2 died: killed by SIGKILL`."""
        how = f"killed by {self.signal}" if self.signal else ""
        how = how or ("" if self.code is None else f"exit code {self.code}")
        return f"attempt {self.attempt} {self.outcome}" + (f": {how}" if how else "")


class PhaseStatus(Frozen):
    name: str
    state: PhaseState
    reason: str = ""
    attempt: int = 0
    done: int | None = None
    total: int | None = None
    unit: str = ""
    elapsed_s: float | None = None
    eta_s: tuple[float, float, float] | None = None
    figures: dict[str, float | None] = {}
    """What the phase measures of itself, such as loss, accept, tok_s, data_wait."""
    last_exit: PhaseExit | None = None
    """How the newest attempt that is over ended; null while none is."""


class LengthFigures(Frozen):
    """Lengths of responses in tokens."""

    responses: int
    tokens_mean: float
    tokens_p50: float
    tokens_p90: float
    tokens_p95: float
    tokens_p99: float
    reasoning_share: float
    reasoning_mean: float | None = None


HISTOGRAM_EDGES = tuple(round(16 * 2 ** (i / 2)) for i in range(25))
"""Lengths in tokens at which the bars of `DatasetStatus.histogram` end: 16, 23, 32, … 65,536."""


class DatasetStatus(Frozen):
    name: str
    kind: Literal["prompts", "native"] = "prompts"
    state: DatasetState = "pending"
    prompts: int | None = None
    complete: int = 0
    truncated: int = 0
    no_answer: int = 0
    loop: int = 0
    failed: int = 0
    """Every other final state (failed, aborted, over_context)."""
    in_flight: int = 0
    concurrency: int | None = None
    tokens: int = 0
    cap_tokens: int | None = None
    cap_samples: int | None = None
    rate_per_min: float | None = None
    tok_s: float | None = None
    tokens_mean: float | None = None
    tokens_p50: float | None = None
    tokens_p90: float | None = None
    tokens_p95: float | None = None
    tokens_p99: float | None = None
    reasoning_share: float | None = None
    """Share of the finished responses that hold reasoning."""
    reasoning_mean: float | None = None
    """Mean length of the reasoning, of those that hold any, in tokens."""
    hour: LengthFigures | None = None
    """The same figures over the last hour; null when nothing finished in it."""
    histogram: tuple[int, ...] = ()
    """Responses by length: how many below each of HISTOGRAM_EDGES and not below the one before it,
    and last those from the last edge on. Empty: none yet."""
    failures: dict[str, int] = {}
    """`failed` by its states: failed, aborted, over_context."""
    eta_s: tuple[float, float, float] | None = None

    @property
    def done(self) -> int:
        """Prompts whose state is final."""
        return self.complete + self.truncated + self.no_answer + self.loop + self.failed


class EndpointFigures(Frozen):
    """One endpoint as the generate worker sees it."""

    in_flight: int = 0
    limit: float | None = None
    """Requests it may have in flight after it was overloaded; null: as many as the concurrency."""
    tok_s: float | None = None
    per_min: float | None = None
    """Whole answers per minute."""
    failures: int = 0
    """Requests without an answer, since the worker started."""


class RetuneStatus(Frozen):
    """A change of one server's settings."""

    id: int
    server: str
    step: RetuneStep
    changes: str
    """What changes, in words: `mem-fraction-static 0.85 → 0.88`."""
    at: float
    """Unix time at which it was asked for."""
    updated: float
    """Unix time at which it came to this step."""
    reason: str = ""
    """Why it was refused or rolled back; empty otherwise."""
    effect: str = ""
    """What it brought, measured over equal windows before and after; empty: not measured yet."""


class ServerStatus(Frozen):
    name: str
    url: str | None = None
    state: ServerState = "stopped"
    reason: str = ""
    remedy: str = ""
    """What to do about the reason; empty when nothing can be advised."""
    pid: int | None = None
    stage: str = ""
    """While it starts: imports, weights, kv_pool, graphs, warmup, ready; empty: not known."""
    progress: float | None = None
    """Share of the stage that is done, 0..1; null: not known."""
    eta_s: float | None = None
    """While it starts: seconds left until it is ready, by its last good start."""
    retune: RetuneStatus | None = None
    """The newest change of its settings while it is under way."""
    tok_s: float | None = None
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    """Share of the KV pool that is in use, 0..1."""
    kv_tokens: int | None = None
    """Size of the KV pool in tokens."""
    cache_hit: float | None = None
    accept_length: float | None = None
    retractions: int | None = None
    client: EndpointFigures | None = None
    """What generation measures of this endpoint from its own requests."""
    age_s: float | None = None
    """Seconds since these figures were true."""


class Launch(Frozen):
    """One launch of a server."""

    server: str
    attempt: int
    launched_at: float
    ready_at: float | None = None
    ended_at: float | None = None
    """Null: it runs."""
    start_s: float | None = None
    """Seconds from launch to ready."""
    outcome: str = ""
    """running, stopped, failed, hung or lost."""
    reason: str = ""
    remedy: str = ""
    settings: dict[str, str | None] = {}
    """What was retuned over run.toml: setting → value; null: the flag of run.toml is left out."""
    retune: int | None = None
    """Id of the change of settings that it was launched for."""
    kv_tokens: int | None = None
    """Size of the KV pool that it came up with."""
    effect: str = ""
    """What its settings brought against those before, when that was measured."""


class Setting(Frozen):
    """One setting of a server that can be retuned."""

    key: str
    kind: str = "text"
    """int, float, bool, choice or text."""
    value: str | None = None
    """What is in force; null: not known, the server's own default."""
    source: Literal["default", "run.toml", "retune"] = "default"
    choices: tuple[str, ...] = ()
    help: str = ""
    """What it does and what bounds it has."""
    known: bool = True
    """False: the installed server does not know it."""


class Tuning(Frozen):
    """What can be retuned of one server."""

    server: str
    settings: tuple[Setting, ...] = ()
    note: str = ""
    """Why something is not known yet; empty when all is."""


class GpuStatus(Frozen):
    """One GPU. Null: the device or its driver does not say."""

    index: int
    name: str
    util: float | None = None
    """Share of time in which any kernel ran: 1 for a starved GPU as well."""
    mem_used: int | None = None
    mem_total: int | None = None
    power_w: float | None = None
    temp_c: float | None = None
    throttle: str | None = None
    """Why the clocks are held down, in words; None: not known; empty: not throttled."""
    state: str = "ok"
    age_s: float | None = None
    uuid: str | None = None
    sm_util: float | None = None
    """Share of the multiprocessors that were busy (NVIDIA from Hopper on)."""
    tensor_util: float | None = None
    """Share of time in which tensor cores worked (NVIDIA from Hopper on)."""
    mem_bw_util: float | None = None
    """Share of the memory bandwidth in use (NVIDIA from Hopper on; AMD: of the controller)."""
    power_limit_w: float | None = None
    energy_j: float | None = None
    """Energy since the driver was loaded, in joules: differences give exact mean power."""
    mem_temp_c: float | None = None
    sm_clock: int | None = None
    """MHz now."""
    sm_clock_max: int | None = None
    pcie: str | None = None
    """Link as it is now, such as `gen5 x16`; an idle one runs slower."""
    pcie_tx: float | None = None
    """Bytes a second over PCIe, from the GPU (rx: to it)."""
    pcie_rx: float | None = None
    nvlink_tx: float | None = None
    """Bytes a second over all NVLinks."""
    nvlink_rx: float | None = None
    ecc_errors: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    xid: int | None = None
    """Newest Xid error of the driver since the sampler began."""
    mig: str | None = None
    """Instances of a partitioned GPU, in words; null when it is not partitioned."""
    processes: tuple[tuple[int, int | None], ...] | None = None
    """Pid and bytes of what computes on it. In a container the pids may be those of the host."""
    owners: tuple[str, ...] | None = None
    """Whose each of these processes is: `server NAME`, a phase, or `other` for what is not ours."""


class HostStatus(Frozen):
    cpu: float | None = None
    mem: float | None = None
    mem_used: int | None = None
    mem_total: int | None = None
    disk_free: int | None = None
    disk_full_at: float | None = None
    gpu_note: str = ""
    """Why there are no GPU figures, or no new ones, in words; empty when there are."""


class CommandStatus(Frozen):
    id: str
    verb: str
    args: dict[str, Any]
    state: CommandState
    at: float
    reason: str = ""
    origin: str = ""
    accepted_at: float | None = None
    effect_at: float | None = None
    """Unix time at which it was in effect, or refused."""
    sentence: str = ""
    """What it does, as it was said when it was accepted."""
    undo: str = ""
    """What `undo` of it would do; empty: it cannot be undone."""


class Alert(Frozen):
    rule: str
    severity: Severity
    sentence: str
    remedy: str
    since: float


class Status(Frozen):
    schema_: int = SCHEMA
    at: float
    seq: int = 0
    run: RunStatus
    supervisor: SupervisorStatus
    phases: tuple[PhaseStatus, ...] = ()
    datasets: tuple[DatasetStatus, ...] = ()
    total: DatasetStatus | None = None
    """All datasets of prompts together, named `total`; its caps are those over all datasets."""
    servers: tuple[ServerStatus, ...] = ()
    gpus: tuple[GpuStatus, ...] = ()
    host: HostStatus = HostStatus()
    commands: tuple[CommandStatus, ...] = ()
    """The newest last; at most 20."""
    alerts: tuple[Alert, ...] = ()
    """The most severe first: the first one is the line the screen shows."""

    def to_json(self) -> dict[str, Any]:
        """The documented form, with `schema` as the first key."""
        body = self.model_dump(mode="json")
        return {"schema": body.pop("schema_"), **body}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Status:
        """Reads `to_json`; fields of a newer supervisor that we do not know are left out."""
        return cls.model_validate({"schema_": body.get("schema", SCHEMA), **body})


class Sample(Frozen):
    """One stored response, for reading."""

    id: str
    dataset: str
    prompt: str
    """The last user turn, as text."""
    reasoning: str
    content: str
    state: SampleState
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    endpoint: str
    at: float


class Event(Frozen):
    """One line of the run's history."""

    id: int
    at: float
    severity: Severity
    source: str
    """Which part says it: supervisor, a phase's name, a server's name, operator."""
    text: str


class Mark(Frozen):
    """A moment that charts show: something that changed what they show."""

    id: int
    at: float
    kind: str
    """retune, crash, hang, pause, phase, …"""
    text: str


class Estimate(Frozen):
    """What was estimated of a phase at some moment of it, to hold against what came."""

    phase: str
    at: float
    attempt: int
    elapsed_s: float | None = None
    """Seconds that the phase had run then."""
    done: int | None = None
    total: int | None = None
    eta_s: tuple[float, float, float]
    """Low, middle and high estimate of the seconds left then."""


class HistoryPoint(Frozen):
    t: float
    """Start of the bucket, Unix seconds."""
    mean: float
    low: float
    high: float


class History(Frozen):
    series: str
    step_s: float
    points: tuple[HistoryPoint, ...] = ()


class CommandRequest(Frozen):
    """An operator's order. `id` is made by the asker, so asking twice does it once."""

    id: str
    verb: str
    args: dict[str, Any] = {}
    origin: str = ""


class Preview(Frozen):
    """What a command would do and cost, said before it is done."""

    allowed: bool
    sentence: str
    drops_work: bool = False
