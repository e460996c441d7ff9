"""Whether new settings can work, said before anything is stopped. Pure.

Limits as found in SGLang 0.5.17 and 0.5.23: a server that breaks one of them dies at its start,
often after minutes of loading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eagle_tui.config.command import FALSE, TRUE
from eagle_tui.supervisor.tuning.arguments import (
    apply,
    is_switch,
    main_name,
    value_of,
)
from eagle_tui.supervisor.tuning.flags import Flag, Flags, plain
from eagle_tui.supervisor.tuning.settings import SETTINGS, Setting, setting

__all__ = ["SETTINGS", "HostFacts", "Problem", "apply", "check"]

RESERVE = 10 << 30
"""Bytes that SGLang leaves free on a host when it makes its host pools."""
GB = 1_000_000_000
TIGHT = 0.95
"""Above this share of GPU memory, activations and graphs have hardly any room."""
LARGEST = float(1 << 63)
"""What is beyond is no number of anything, and products of it would be none for Python."""
LEAST_POOL = 16
"""Tokens; the warm-up request alone takes 14."""

OURS = {
    "model-path": "`target.model` in run.toml",
    "model": "`target.model` in run.toml",
    "host": "`host` of [[server]]",
    "port": "`port` of [[server]]",
    "api-key": "`api_key_env` of [[server]]",
    "admin-api-key": "`admin_api_key_env` of [[server]]",
    "config": "run.toml alone",
    "help": "nothing: it ends the server",
    "version": "nothing: it ends the server",
}
"""Flags that a retune must not touch, and what sets them."""

NEEDS_RADIX = ("disable-radix-cache", "enable-unified-memory", "enable-lmcache",
               "enable-unified-cache-external-linker")  # fmt: skip
"""Flags that exclude the hierarchical cache."""
HICACHE = ("hicache-ratio", "hicache-size", "hicache-write-policy")

SUFFIXES = {
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
SUFFIXED = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<suffix>k|[MGT]|[KMGT]i)")


@dataclass(frozen=True)
class HostFacts:
    """What is known about the machine when settings are checked. None: not known."""

    mem_free: int | None = None
    """Bytes of host memory that can be taken now (telemetry.memory)."""
    running: bool = True
    """A server with the present command line holds its host pools, and gives them back when it is
    stopped."""
    kv_bytes: int | None = None
    """Bytes of the present KV pool on one GPU."""
    others: int = 0
    """Bytes that the other servers of this host will take beyond what they hold now."""
    weight_share: float | None = None
    """Share of the free GPU memory that the weights alone take."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with one setting. One that is not fatal is said, and does not refuse."""

    key: str
    sentence: str
    fatal: bool = True


def check(
    changes: Mapping[str, str | None],
    argv: Sequence[str],
    flags: Flags | None,
    host: HostFacts,
) -> list[Problem]:
    """Every problem that the changes would bring to the command line `argv`, fatal ones first.

    `flags`: what the server's own `--help` knows; None when it could not be read, then only our
    own table is gone by.
    """
    found: list[Problem] = []
    for key, value in changes.items():
        found += _one(key, value, flags)
    if not any(p.fatal for p in found):
        found += _together(changes, argv, flags, host)
    return sorted(found, key=lambda p: not p.fatal)


def _one(key: str, value: str | None, flags: Flags | None) -> Iterator[Problem]:
    name = plain(key)
    if owner := OURS.get(main_name(name, flags), OURS.get(name)):
        yield Problem(key, f"{name} is not for retune: it is set by {owner}")
        return
    known, flag = setting(name), flags.get(name) if flags else None
    if flags and known and flag is None:
        flag = flags.get(known.key)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        yield Problem(key, f"{key!r} is no name of a flag")
        return
    if flags is not None and flag is None:
        near = flags.nearest(name)
        hint = f"; the nearest is {near}" if near else ""
        yield Problem(key, f"the installed server does not know --{name}{hint}")
        return
    if flags is None and known is None:
        sentence = f"whether the server knows --{name} could not be found out"
        yield Problem(key, sentence, fatal=False)
    if value is None:
        return
    if not value.strip() or not value.isprintable():
        yield Problem(key, f"{name}: the value is empty or holds control characters")
    elif value.startswith("-") and number_of(value) is None:
        yield Problem(key, f"{name}: {value} would be read as another flag")
    elif is_switch(name, flags):
        if value.lower() not in (*TRUE, *FALSE):
            yield Problem(key, f"{name} is on or off: say true or false, not {value}")
    elif choices := (flag.choices if flag else ()) or (known.choices if known else ()):
        many = value.split() if flag and flag.many else [value]
        for word in many:
            if word not in choices:
                sentence = f"{name}: {word} is none of {', '.join(choices)}"
                yield Problem(key, sentence, fatal=flag is not None)
    elif known:
        yield from _bounds(key, known, value, flag)
    elif value.lower() in (*TRUE, *FALSE) and flag:
        yield Problem(key, f"{name} needs a value", fatal=value.lower() in TRUE)


def _bounds(key: str, known: Setting, value: str, flag: Flag | None) -> Iterator[Problem]:
    name = known.key
    number = number_of(value, flag)
    if number is None:
        yield Problem(key, f"{name}: {value} is no number")
    elif known.kind == "int" and number != int(number):
        yield Problem(key, f"{name}: {value} is no whole number")
    elif name == "mem-fraction-static" and not 0 < number < 1:
        yield Problem(key, f"{name} is a share between 0 and 1, not {value}")
    elif name == "hicache-ratio" and number <= 1:
        sentence = f"{name}: a host pool that is no larger than the GPU pool ({value}) is of no use"
        yield Problem(key, sentence)
    elif name == "chunked-prefill-size" and (number < -1 or number == 0):
        yield Problem(key, f"{name} is a number of tokens, or -1 for whole prompts, not {value}")
    elif known.low is not None and number < known.low:
        yield Problem(key, f"{name}: {value} is less than {known.low:g}")
    elif name == "max-total-tokens" and number < LEAST_POOL:
        yield Problem(key, f"{name}: not even the warm-up request fits in {value} tokens")
    elif name == "mem-fraction-static" and number > TIGHT:
        sentence = f"{name} {value} leaves hardly any memory for activations and CUDA graphs"
        yield Problem(key, sentence, fatal=False)


def number_of(value: str, flag: Flag | None = None) -> float | None:
    """A number as the server reads it; 16k and 1Mi only where the flag takes them."""
    if (flag is None or flag.suffixes) and (match := SUFFIXED.fullmatch(value)):
        number = float(match["number"]) * SUFFIXES[match["suffix"]]
    elif "_" in value:
        return None
    else:
        try:
            number = float(value)
        except ValueError:
            return None
    return number if abs(number) <= LARGEST else None  # neither is NaN


class _Line:
    """A command line, asked for values."""

    def __init__(self, argv: Sequence[str], flags: Flags | None) -> None:
        self._argv, self._flags = argv, flags

    def text(self, name: str) -> str | None:
        return value_of(self._argv, name, self._flags)

    def on(self, name: str) -> bool:
        return self.text(name) is not None

    def number(self, *names: str, default: float) -> float:
        for name in names:
            found = self.text(name)
            number = number_of(found) if found else None
            if number is not None:
                return number
        return default

    def ranks(self) -> int:
        """Processes with a KV pool of their own on one host."""
        tp = self.number("tp-size", "tp", "tensor-parallel-size", default=1)
        pp = self.number("pp-size", "pp", "pipeline-parallel-size", default=1)
        dp = self.number("dp-size", "dp", "data-parallel-size", default=1)
        nodes = self.number("nnodes", default=1)
        # With DP attention the data-parallel ranks are the tensor-parallel ones.
        copies = 1 if self.on("enable-dp-attention") else dp
        return max(1, int(tp * pp * copies / max(1.0, nodes)))

    def host_bytes(self, kv_bytes: int | None) -> float | None:
        """Bytes of all host pools on one host; None: not known."""
        if not self.on("enable-hierarchical-cache"):
            return 0.0
        size = self.number("hicache-size", default=0)
        if size > 0:
            return size * GB * self.ranks()
        if kv_bytes is None or not self.on("hicache-ratio"):
            return None
        return self.number("hicache-ratio", default=2.0) * kv_bytes * self.ranks()


def host_pools(argv: Sequence[str], flags: Flags | None, kv_bytes: int | None) -> float | None:
    """Bytes of host memory of all ranks' host pools with this command line; None: not known.
    `kv_bytes`: of the KV pool on one GPU."""
    return _Line(argv, flags).host_bytes(kv_bytes)


def _together(
    changes: Mapping[str, str | None],
    argv: Sequence[str],
    flags: Flags | None,
    host: HostFacts,
) -> Iterator[Problem]:
    """What shows only on the whole command line."""
    changed = {main_name(k, flags): k for k in changes}
    before, line = _Line(argv, flags), _Line(apply(argv, changes, flags), flags)
    yield from _batch(changed, line)
    yield from _weights(changed, line, host)
    if line.on("enable-hierarchical-cache"):
        yield from _hicache(changed, before, line, host)
    else:
        for name in HICACHE:
            if name in changed and line.on(name):
                sentence = f"{name} does nothing while enable-hierarchical-cache is off"
                yield Problem(changed[name], sentence, fatal=False)


def _weights(changed: Mapping[str, str], line: _Line, host: HostFacts) -> Iterator[Problem]:
    """mem-fraction-static is a share for the weights *and* the pool."""
    name = "mem-fraction-static"
    share = line.number(name, default=1.0)
    if name in changed and host.weight_share is not None and share <= host.weight_share:
        sentence = (
            f"{name} {share:g} leaves no memory for the KV pool: the weights alone take "
            f"{host.weight_share:.3f} of it"
        )
        yield Problem(changed[name], sentence)


def _batch(changed: Mapping[str, str], line: _Line) -> Iterator[Problem]:
    page = line.number("page-size", default=1)
    chunk = line.number("chunked-prefill-size", default=-1)
    if chunk > 0 and page > 1 and chunk % page and changed.keys() & {
        "chunked-prefill-size", "page-size"
    }:  # fmt: skip
        key = changed.get("chunked-prefill-size") or changed["page-size"]
        sentence = f"chunked-prefill-size {chunk:g} is no multiple of page-size {page:g}"
        yield Problem(key, sentence)
    running = line.number("max-running-requests", default=0)
    dp = line.number("dp-size", "dp", "data-parallel-size", default=1)
    if running and running < dp and "max-running-requests" in changed:
        sentence = f"max-running-requests {running:g} leaves none for some of {dp:g} dp ranks"
        yield Problem(changed["max-running-requests"], sentence)
    pool = line.number("max-total-tokens", default=0)
    context = line.number("context-length", default=0)
    if pool and "max-total-tokens" in changed:
        if pool < page:
            sentence = f"max-total-tokens {pool:g} is less than one page of {page:g}"
            yield Problem(changed["max-total-tokens"], sentence)
        elif pool < context:
            sentence = (
                f"max-total-tokens {pool:g} is less than context-length {context:g}: long requests "
                "would be cut or refused"
            )
            yield Problem(changed["max-total-tokens"], sentence, fatal=False)


def _hicache(
    changed: Mapping[str, str], before: _Line, line: _Line, host: HostFacts
) -> Iterator[Problem]:
    names = ("enable-hierarchical-cache", *HICACHE, *NEEDS_RADIX)
    key = next((changed[n] for n in names if n in changed), None)
    if key is None:
        return
    for name in NEEDS_RADIX:
        if line.on(name):
            yield Problem(key, f"the hierarchical cache cannot be used together with {name}")
    if line.text("device") == "cpu":
        yield Problem(key, "the hierarchical cache needs a GPU; this server runs on the CPU")
    if line.on("hicache-size") and line.on("hicache-ratio"):
        yield Problem(
            key, "hicache-size comes before hicache-ratio, which then does nothing", False
        )
    wanted = line.host_bytes(host.kv_bytes)
    if wanted is None or host.mem_free is None:
        yield Problem(key, "whether the host pools fit in host memory is not known", fatal=False)
        return
    held = (before.host_bytes(host.kv_bytes) or 0.0) if host.running else 0.0
    free = host.mem_free + held - host.others
    if wanted + RESERVE > free:
        ranks = line.ranks()
        room = max(0, int((free - RESERVE) / ranks / GB))
        shared = " that the other servers of this host leave" if host.others > 0 else ""
        sentence = (
            f"{wanted / ranks / GB:.0f} GB of host pool for each of {ranks} "
            f"rank{'s' if ranks > 1 else ''} and 10 GiB to spare do not fit in "
            f"{max(0.0, free) / 2**30:.0f} GiB of free host memory{shared}; at most hicache-size "
            f"{room}"
        )
        yield Problem(key, sentence)
