"""What a server needs of its surroundings, and what is wanted of it now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx

from eagle_tui.clock import Clock
from eagle_tui.protocol import GpuStatus, Severity
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.launches import InFlight
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.flags import Flags

Say = Callable[[Severity, str, str], None]


@dataclass(frozen=True)
class Context:
    """What every server needs of its surroundings."""

    run: RunDir
    store: Store
    clock: Clock
    http: httpx.AsyncClient
    say: Say
    gpus: Callable[[], tuple[GpuStatus, ...]]
    """The newest figures of the GPUs; empty when there are none, or none are known."""


@dataclass(frozen=True)
class Plan:
    """With what a server is to be launched."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    """What is retuned over run.toml."""
    retune: int | None = None
    """The change of settings that the launch is for."""
    trial: bool = False
    """Launched once: when it dies before it is ready, it is not for the server to try again."""
    number: int = 1
    """Which trial it is: another number is launched anew."""
    flags: Flags | None = None
    """The flags by which the settings were checked: they become words by the same ones. None: not
    known."""


@dataclass(frozen=True)
class Wish:
    """What is wanted of a server now."""

    run: bool
    """It shall run; False: it shall not."""
    plan: Plan = Plan()
    held: bool = True
    """No request of ours is in flight on it."""
    in_flight: int = 0
    """Requests that generation has in flight on it, as far as it told."""
    leave: InFlight = "hold"
    """What becomes of them when it shall not run."""
