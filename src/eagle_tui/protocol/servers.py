"""Snapshots of servers: figures, launches, settings and their changes."""

from __future__ import annotations

from typing import Literal

from .base import Frozen, RetuneStep, ServerState


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
    waits: str = ""
    """Why it does not go on; empty: it goes on."""
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
