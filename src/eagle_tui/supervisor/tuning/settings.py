"""The settings of a server that are worth changing while a run goes on, and what each does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagle_tui.supervisor.tuning.flags import plain

Kind = Literal["int", "float", "bool", "choice"]
DEFAULT = "default"
"""Typed instead of a value: as in run.toml again."""
NONE = "none"
"""Typed instead of a value: without the flag of run.toml."""


@dataclass(frozen=True)
class Setting:
    """One known setting. `key` is the flag's name without dashes."""

    key: str
    kind: Kind
    explanation: str
    """What it does, and what bounds it; shown where it is edited."""
    low: float | None = None
    high: float | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """Those of SGLang 0.5.17; the server's own `--help` comes first."""

    @property
    def flag(self) -> str:
        """As it stands on a command line."""
        return f"--{self.key}"


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "mem-fraction-static",
        "float",
        "share of GPU memory for weights and KV pool, between 0 and 1; the rest must hold "
        "activations and CUDA graphs. Too low: no room for the pool; too high: out of memory later",
        low=0.0,
        high=1.0,
    ),
    Setting(
        "max-running-requests",
        "int",
        "requests computed together, at least 1; default by the size of the pool, 48 when "
        "speculating. Data-parallel ranks share it",
        low=1,
    ),
    Setting(
        "max-total-tokens",
        "int",
        "upper bound of the KV pool in tokens; it can make the pool smaller, never larger",
        low=1,
    ),
    Setting(
        "chunked-prefill-size",
        "int",
        "tokens of prefill in one step, a multiple of the page size; -1: prompts whole. Larger "
        "chunks need more memory for activations",
        low=-1,
    ),
    Setting(
        "schedule-policy",
        "choice",
        "which waiting request comes next; lpm: the one with the longest cached prefix",
        choices=("lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key"),
    ),
    Setting(
        "schedule-conservativeness",
        "float",
        "how much room is kept for tokens to come; default 1.0. Higher: fewer retractions, smaller "
        "batches",
        low=0.0,
    ),
    Setting(
        "kv-cache-dtype",
        "choice",
        "type of the KV cache; an fp8 type halves the bytes of a token, so it doubles the pool",
        choices=("auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16"),
    ),
    Setting(
        "enable-hierarchical-cache",
        "bool",
        "keeps evicted KV in host memory; needs GPUs and the radix cache",
        aliases=("enable-hicache",),
    ),
    Setting(
        "hicache-ratio",
        "float",
        "host pool as a multiple of the GPU pool, above 1; default 2",
        low=1.0,
    ),
    Setting(
        "hicache-size",
        "int",
        "host pool in GB (1e9 bytes) per rank, a whole number; comes before the ratio. All ranks "
        "of a host together must leave 10 GiB of its memory free",
        low=1,
    ),
    Setting(
        "hicache-write-policy",
        "choice",
        "when KV is copied to the host",
        choices=("write_back", "write_through", "write_through_selective"),
    ),
)
BY_NAME = {name: s for s in SETTINGS for name in (s.key, *s.aliases)}


def setting(name: str) -> Setting | None:
    """The known setting of that name, in any spelling; None: it is an extra flag."""
    return BY_NAME.get(plain(name))
