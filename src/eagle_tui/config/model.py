"""The typed model of `run.toml`. Field docstrings are the documentation (docs/config.md)."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from eagle_tui.config.drafter import BenchSection, ExtractSection, TrainSection
from eagle_tui.config.notify import NotifySection
from eagle_tui.config.policy import PolicySection
from eagle_tui.config.section import Section
from eagle_tui.config.ui import UiSection

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""Names become file names, so: lower-case letters, digits, `.`, `_`, `-`; at most 63 characters."""

RESERVED_ENDINGS = (".rejected", ".dead", ".partial", ".meta")
"""A dataset `a.dead` would share a file with the dead letters of dataset `a`."""

PHASES: tuple[str, ...] = ("prepare", "generate", "merge", "extract", "train", "bench")
PhaseName = Literal["prepare", "generate", "merge", "extract", "train", "bench"]
FlagValue = bool | int | float | str | list[int] | list[str]


class RunSection(Section):
    """What this run is."""

    name: Name = "run"
    """Name shown in titles and reports."""
    phases: list[PhaseName] = ["prepare", "generate", "merge", "extract", "train", "bench"]
    """Phases to run, in pipeline order. A phase that is not named is skipped."""

    @field_validator("phases")
    @classmethod
    def _in_order(cls, phases: list[str]) -> list[str]:
        if not phases or phases != [p for p in PHASES if p in phases]:
            raise ValueError(
                "name each phase once, in the order prepare, generate, merge, extract, train, bench"
            )
        return phases


class TargetSection(Section):
    """The target model: the large model whose drafter is trained."""

    model: str = Field(min_length=1)
    """Directory or hub id of the target model; `builtin:tiny` is the small one shipped with us."""
    trust_remote_code: bool = False
    """Let the tokenizer and the model run code from their repository. Off unless you trust it."""
    chat_template: str | None = None
    """File with a Jinja chat template that replaces the tokenizer's own."""
    context_length: int | None = Field(default=None, ge=16)
    """Context in tokens; prompts that leave no room in it are rejected. Unset: the model's own."""
    reasoning: str = "auto"
    """Reasoning family (`qwen3`, `deepseek-r1`, `kimi_k2`, `gpt-oss`, …), `auto` or `none`."""
    chat_template_kwargs: dict[str, bool | int | float | str] = {}
    """Extra variables for the chat template, such as `enable_thinking = true`."""


class ServerSection(Section):
    """One server (endpoint) of the target. Several tables `[[server]]` give several endpoints."""

    name: Name = "server"
    """Name of the endpoint."""
    engine: Literal["sglang", "embedded"] = "sglang"
    """`sglang`: real SGLang. `embedded`: our small engine on transformers, for small models."""
    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(:\d+)?$")
    """Attach to a server that somebody else runs: it is then never started or stopped by us."""
    command: list[str] = []
    """How to start SGLang, e.g. `["/opt/sglang/bin/python", "-m", "sglang.launch_server"]`; model,
    host, port and `flags` are appended. `{model}`, `{port}` and `{host}` are filled in."""
    flags: dict[str, FlagValue] = {}
    """Server flags without dashes, `mem-fraction-static = 0.88`; `true` gives a bare flag."""
    env: dict[str, str] = {}
    """Extra environment variables of the server."""
    gpus: list[Annotated[int, Field(ge=0)]] = []
    """GPU indices given to the server through CUDA_VISIBLE_DEVICES. Empty: all."""
    host: str = "127.0.0.1"
    """Address the server listens on."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port the server listens on. Unset: a free one is chosen at each launch."""
    start_timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds until a server that is not ready yet counts as failed to start."""
    stop_timeout_s: float = Field(default=60.0, gt=0)
    """Seconds a server gets to stop by itself before its process group is killed."""
    hold_timeout_s: float = Field(default=20.0, ge=0)
    """Seconds generation gets to take its requests back before a server is told to stop; what is
    still in flight then is cut off, and continued later from the tokens that were saved."""
    hang_s: float = Field(default=360.0, gt=0)
    """Seconds in which a server with requests makes no token and reads no prompt until it counts as
    hanging. More than SGLang's own watchdog (300 s), which says more when it strikes first."""
    on_hang: Literal["restart", "warn"] = "restart"
    """What happens to a server that hangs, after evidence was saved under logs/. One that is
    attached by url is only warned of."""
    api_key_env: str | None = None
    """Name of the environment variable that holds the server's API key. A server that is launched
    is given it in a file that only its owner can read, never in its argument list; `eagle-tui up`
    is to run where the variable is set. SGLang writes it into its own log."""
    admin_api_key_env: str | None = None
    """Name of the environment variable that holds the admin key (abort, pause, flush)."""

    @field_validator("url")
    @classmethod
    def _port_in_range(cls, url: str | None) -> str | None:
        if url is not None:
            try:
                port = urlsplit(url).port
            except ValueError as error:
                raise ValueError(f"{url!r}: {error}") from None
            if port == 0:
                raise ValueError(f"{url!r}: nothing listens on port 0")
        return url

    @field_validator("env")
    @classmethod
    def _names_of_variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not name or "=" in name:
                raise ValueError(f"{name!r} is no name of an environment variable")
        return env

    @field_validator("gpus")
    @classmethod
    def _each_gpu_once(cls, gpus: list[int]) -> list[int]:
        if len(set(gpus)) != len(gpus):
            raise ValueError("name each GPU once")
        return gpus

    @field_validator("flags")
    @classmethod
    def _names_of_flags(cls, flags: dict[str, FlagValue]) -> dict[str, FlagValue]:
        for name in flags:
            if not name.strip("-_") or name.startswith("-"):
                raise ValueError(f"{name!r}: write flags without the dashes before them")
        return flags

    @model_validator(mode="after")
    def _one_way_to_it(self) -> Self:
        if self.url and self.command:
            raise ValueError("give either url (attach) or command (launch), not both")
        if self.engine == "sglang" and not self.url and not self.command:
            raise ValueError("an sglang server needs url (attach) or command (launch)")
        return self


class DatasetSection(Section):
    """One dataset. Datasets are generated in the order in which they stand in the file."""

    name: Name
    """Name of the dataset; file names are made from it."""
    source: str = Field(min_length=1)
    """A local JSONL, JSON or Parquet file (relative to run.toml), or a Hugging Face dataset id."""
    kind: Literal["prompts", "native"] = "prompts"
    """`prompts`: the target writes the responses. `native`: rows already hold its own responses."""
    length: Literal["short", "long"] = "short"
    """`long` uses concurrency_long and max_new_tokens_long of [generate]."""
    subset: str | None = None
    """Configuration name of a Hugging Face dataset."""
    split: str = "train"
    """Split of a Hugging Face dataset."""
    samples: int | None = Field(default=None, ge=1)
    """Use at most this many rows (the first ones that are valid). Unset: all."""
    cap_tokens: int | None = Field(default=None, ge=1)
    """Stop generating for this dataset when its responses hold this many tokens."""
    cap_samples: int | None = Field(default=None, ge=1)
    """Stop generating for this dataset after this many finished responses."""
    concurrency: int | None = Field(default=None, ge=1, le=65536)
    """Requests in flight for this dataset. Unset: [generate].concurrency or concurrency_long."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Longest response in tokens. Unset: [generate].max_new_tokens or max_new_tokens_long."""
    hold_out: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    """Prompts kept out of training, for validation and the benchmark; `"all"`: the dataset is only
    measured by. Unset: the share [merge].val_fraction."""


class PrepareSection(Section):
    """Phase 1: read the datasets, normalise conversations, render and tokenise prompts."""

    max_prompt_tokens: int | None = Field(default=None, ge=1)
    """Reject longer prompts. Unset: the context less min_response_tokens."""
    min_response_tokens: int = Field(default=16, ge=1)
    """Room that a prompt must leave in the context for its response."""
    system_prompt: str | None = None
    """System prompt for conversations that bring none."""


class GenerateSection(Section):
    """Phase 2: let the target write the responses."""

    concurrency: int = Field(default=150, ge=1, le=65536)
    """Requests in flight for a short dataset. Datasets that overlap share the budget: the sum over
    datasets of in-flight/concurrency is kept at 1."""
    concurrency_long: int = Field(default=32, ge=1, le=65536)
    """Requests in flight for a long dataset."""
    max_new_tokens: int = Field(default=4096, ge=1)
    """Longest response of a short dataset, in tokens."""
    max_new_tokens_long: int = Field(default=16384, ge=1)
    """Longest response of a long dataset, in tokens."""
    temperature: float = Field(default=0.7, ge=0)
    """Sampling temperature; 0 is greedy."""
    top_p: float = Field(default=0.95, gt=0, le=1)
    """Nucleus sampling: smallest set of tokens with this probability."""
    top_k: int = Field(default=-1, ge=-1)
    """Sample among this many likeliest tokens; -1: all."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Drop tokens less likely than this share of the likeliest one."""
    cap_tokens: int | None = Field(default=None, ge=1)
    """Cap in tokens for every dataset that sets none itself."""
    cap_tokens_total: int | None = Field(default=None, ge=1)
    """Cap in tokens for all datasets together."""
    cap_samples_total: int | None = Field(default=None, ge=1)
    """Cap in stored responses for all datasets together."""
    prompt_order: Literal["file", "shortest_first", "longest_first"] = "file"
    """Which prompts of a dataset go first: as they stand in the file, or by their tokens. Longest
    first leaves short ones for the end, so that few stragglers remain."""
    adaptive: bool = False
    """Lower what an endpoint has in flight when it retracts requests or refuses them as too busy,
    and raise it again, up to the concurrency, while its KV cache has room."""
    probe: Literal["refuse", "warn", "off"] = "refuse"
    """Before the flood one prompt is sent, to see that a reasoning model reasons. `refuse`: the
    phase does not go on when prompts open a thought and answers hold none (other reasoning models
    are warned of); `warn`: it is only said."""
    journal_tokens: int = Field(default=64, ge=0)
    """Answers longer than this are streamed, and their tokens saved each time so many are new: what
    a crash of worker or server costs an answer at most. 0: tokens are saved on a pause only. While
    the requests in flight on an endpoint are younger in the mean than twice fsync_interval_s, so
    that a crash costs next to nothing, answers are not streamed either."""
    fsync_interval_s: float = Field(default=1.0, gt=0, le=60)
    """Results are forced to disk at least this often; at most these are generated again."""
    request_stall_s: float = Field(default=600.0, gt=0)
    """A request without an answer for this long, on a server whose token counter stands still, is
    aborted and sent again."""

    policy: PolicySection = PolicySection()
    """What becomes of each state that is no success; see `[generate.policy]`."""

    @field_validator("top_k")
    @classmethod
    def _no_zero(cls, top_k: int) -> int:
        if top_k == 0:
            raise ValueError("0 is refused by SGLang; use -1 to sample among all tokens")
        return top_k


class MergeSection(Section):
    """Phase 3: join native and generated rows, mask, shuffle, split, write token shards."""

    seed: int = Field(default=0, ge=0)
    """Seed of the shuffle."""
    val_fraction: float = Field(default=0.02, ge=0, lt=1)
    """Share of the rows kept for validation, taken from every dataset alike."""
    max_tokens: int | None = Field(default=None, ge=2)
    """Leave out longer rows. Unset: none."""
    shard_tokens: int = Field(default=4_000_000, ge=1)
    """Tokens after which a new shard begins."""
    include: list[Literal["complete", "truncated"]] = ["complete", "truncated"]
    """States of responses that are trained on. A truncated response keeps its tokens, and has no
    end token."""


class SupervisorSection(Section):
    """How the supervisor watches workers and servers."""

    restarts: int = Field(default=5, ge=0, le=1000)
    """Restarts of a worker or server that died, within restart_window_s, before it is `failed`."""
    restart_window_s: float = Field(default=600.0, gt=0)
    """Window in which restarts are counted."""
    backoff_s: float = Field(default=1.0, ge=0, le=3600)
    """Wait before the first restart; doubled each time, 60 s at most."""
    stall_s: float = Field(default=180.0, gt=0)
    """Seconds without any progress after which a running phase is shown as stalled."""
    effect_window_s: float = Field(default=600.0, ge=10, le=86400)
    """After a retune of a server, as many seconds of generation as this are compared with as many
    before it. Only time in which generation really ran counts."""
    stop_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds a worker gets to finish the record in hand after SIGTERM before it is killed."""


class RunConfig(Section):
    """The whole of run.toml."""

    run: RunSection = RunSection()
    target: TargetSection
    server: list[ServerSection] = Field(min_length=1)
    dataset: list[DatasetSection] = Field(min_length=1)
    prepare: PrepareSection = PrepareSection()
    generate: GenerateSection = GenerateSection()
    merge: MergeSection = MergeSection()
    extract: ExtractSection = ExtractSection()
    train: TrainSection = TrainSection()
    bench: BenchSection = BenchSection()
    supervisor: SupervisorSection = SupervisorSection()
    notify: NotifySection = NotifySection()
    ui: UiSection = UiSection()

    @field_validator("dataset")
    @classmethod
    def _free_file_names(cls, datasets: list[DatasetSection]) -> list[DatasetSection]:
        for dataset in datasets:
            if dataset.name == "total":
                raise ValueError("'total' stands for all datasets together; choose another name")
            for ending in RESERVED_ENDINGS:
                if dataset.name.endswith(ending):
                    raise ValueError(f"{dataset.name!r}: {ending!r} is an ending of our own files")
        return datasets

    def dataset_named(self, name: str) -> DatasetSection:
        """The dataset of that name; KeyError when there is none."""
        for item in self.dataset:
            if item.name == name:
                return item
        raise KeyError(name)

    def concurrency_of(self, dataset: DatasetSection) -> int:
        """Requests in flight that run.toml allows for the dataset."""
        if dataset.concurrency is not None:
            return dataset.concurrency
        long = dataset.length == "long"
        return self.generate.concurrency_long if long else self.generate.concurrency

    def max_new_tokens_of(self, dataset: DatasetSection) -> int:
        """Longest response in tokens that run.toml allows for the dataset."""
        if dataset.max_new_tokens is not None:
            return dataset.max_new_tokens
        long = dataset.length == "long"
        return self.generate.max_new_tokens_long if long else self.generate.max_new_tokens

    def cap_tokens_of(self, dataset: DatasetSection) -> int | None:
        """Token cap of the dataset by run.toml; None: no cap."""
        return dataset.cap_tokens if dataset.cap_tokens is not None else self.generate.cap_tokens
