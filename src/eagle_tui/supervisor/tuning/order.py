"""An order to retune: from what was typed to what changes on each server, or why not. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from eagle_tui.supervisor.launches import InFlight
from eagle_tui.supervisor.tuning.arguments import apply, main_name, value_of
from eagle_tui.supervisor.tuning.constraints import HostFacts, Problem, check, host_pools
from eagle_tui.supervisor.tuning.flags import Flags, plain
from eagle_tui.supervisor.tuning.settings import DEFAULT, NONE

MOST = 32
"""Settings in one order."""


class CannotRetune(ValueError):
    """The order cannot be carried out; the message names every problem."""


@dataclass(frozen=True)
class ServerView:
    """What an order looks at of one server."""

    name: str
    argv: tuple[str, ...] = ()
    """Its command line by run.toml alone; empty: it cannot be made."""
    tuned: Mapping[str, str | None] = field(default_factory=dict)
    """What is retuned over run.toml now."""
    in_force: Mapping[str, str] = field(default_factory=dict)
    """What the server says of itself, by name of the flag."""
    flags: Flags | None = None
    host: HostFacts = field(default_factory=HostFacts)
    refusal: str = ""
    """Why it cannot be retuned at all; empty: it can."""
    fault: Callable[[Sequence[str]], str] = lambda _argv: ""
    """Why a command line must not be started although the server would take it; empty: it may."""
    last_start_s: float | None = None


@dataclass(frozen=True)
class RetuneOrder:
    """What changes on one server."""

    server: str
    changes: Mapping[str, str | None]
    """The flags as they are to be; None: the flag is left out."""
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    """What is retuned over run.toml, before and after."""
    words: str
    warnings: tuple[str, ...] = ()
    in_flight: InFlight = "hold"


def parse(settings: Any) -> dict[str, str | None]:
    """`{"mem_fraction_static": "0.88"}` → `{"mem-fraction-static": "0.88"}`; `none` → None.
    CannotRetune when it is no such thing."""
    if not isinstance(settings, Mapping) or not settings:
        raise CannotRetune("say what to change, for example mem-fraction-static=0.88")
    if len(settings) > MOST:
        raise CannotRetune(f"more than {MOST} settings at once")
    found: dict[str, str | None] = {}
    for key, value in settings.items():
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(key, str) or not isinstance(value, str | int | float):
            raise CannotRetune(f"{key!r}: expected a setting and its value; found {value!r}")
        name, text = plain(key), str(value).strip()
        if not name:
            raise CannotRetune(f"{key!r} is no name of a setting")
        found[name] = None if text == NONE else text
    return found


def orders(
    servers: Sequence[ServerView], name: str | None, settings: Any, in_flight: Any = "hold"
) -> tuple[RetuneOrder, ...]:
    """What changes on the server of that name, or on all that we run. CannotRetune with every
    problem."""
    typed = parse(settings)
    if in_flight not in get_args(InFlight):
        raise CannotRetune(f"in_flight: expected hold, drain or abort; found {in_flight!r}")
    meant = _meant(servers, name)
    then = {server.name: settings_after(server, typed)[0] for server in meant}
    found: list[RetuneOrder] = []
    refusals: list[str] = []
    for server in meant:
        if server.refusal:
            refusals.append(f"{server.name}: {server.refusal}")
            continue
        host = replace(server.host, others=others(servers, server.name, then))
        order, problems = order_for(replace(server, host=host), typed)
        fatal = [p.sentence for p in problems if p.fatal]
        if fatal:
            refusals.append(f"{server.name}: {'; '.join(fatal)}")
        elif order is not None:
            found.append(replace(order, in_flight=in_flight))
    if refusals:
        raise CannotRetune(". ".join(refusals))
    if not found:
        raise CannotRetune("nothing would change: these settings are in force")
    return tuple(found)


def _meant(servers: Sequence[ServerView], name: str | None) -> list[ServerView]:
    if name is not None:
        return [server for server in servers if server.name == name]
    ours = [server for server in servers if server.argv or not server.refusal]
    if not ours:
        raise CannotRetune(servers[0].refusal if servers else "there is no server")
    return ours


def others(
    servers: Iterable[ServerView], name: str, then: Mapping[str, Mapping[str, str | None]]
) -> int:
    """Bytes of host memory that the other servers of this host will take beyond what they hold now
    for their host pools: those that are not up, and those whose settings change to `then`, too.
    What cannot be known is 0."""
    total = 0.0
    for other in servers:
        if other.name == name or not other.argv:
            continue

        def pools(tuned: Mapping[str, str | None], other: ServerView = other) -> float:
            line = apply(other.argv, tuned, other.flags)
            return host_pools(line, other.flags, other.host.kv_bytes) or 0.0

        total += pools(then.get(other.name, other.tuned))
        total -= pools(other.tuned) if other.host.running else 0.0
    return int(total)


def order_for(
    server: ServerView, typed: Mapping[str, str | None]
) -> tuple[RetuneOrder | None, list[Problem]]:
    """What would change on one server (None: nothing), and what is wrong with it."""
    now = apply(server.argv, server.tuned, server.flags)
    after, changes = settings_after(server, typed)
    problems = check(changes, now, server.flags, server.host)
    if fault := server.fault(apply(now, changes, server.flags)):
        problems = [Problem(next(iter(changes), ""), fault.rstrip(".")), *problems]
    if all(_same(server, now, key, after) for key in changes):
        return None, problems
    words = ", ".join(_words(server, now, key, value) for key, value in changes.items())
    warnings = tuple(p.sentence for p in problems if not p.fatal)
    return RetuneOrder(server.name, changes, dict(server.tuned), after, words, warnings), problems


def settings_after(
    server: ServerView, typed: Mapping[str, str | None]
) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """What is retuned over run.toml then, and the flags as they are to be."""
    after = {
        k: v
        for k, v in server.tuned.items()
        if main_name(k, server.flags) not in {main_name(t, server.flags) for t in typed}
    }
    changes: dict[str, str | None] = {}
    for name, value in typed.items():
        key = _spelled(server, name)
        if value == DEFAULT:
            changes[key] = value_of(server.argv, key, server.flags)
        else:
            after[key] = changes[key] = value
    # What run.toml says anyway is no change over it.
    after = {k: v for k, v in after.items() if not _same(server, server.argv, k, {k: v})}
    return after, changes


def _spelled(server: ServerView, name: str) -> str:
    """The name under which run.toml has the flag already: by that one it is found also when nobody
    knows which names are the same."""
    wanted = main_name(name, server.flags)
    for word in server.argv:
        if word.startswith("--") and main_name(word.partition("=")[0], server.flags) == wanted:
            return plain(word.partition("=")[0])
    return name


def _same(
    server: ServerView, now: Sequence[str], key: str, tuned: Mapping[str, str | None]
) -> bool:
    """Whether a flag is on the command line `now` what it would be with `tuned`."""
    then = apply(server.argv, tuned, server.flags)
    return value_of(now, key, server.flags) == value_of(then, key, server.flags)


def _words(server: ServerView, now: Sequence[str], key: str, value: str | None) -> str:
    """`mem-fraction-static 0.85 → 0.88`."""
    return f"{key} {present(server, now, key) or DEFAULT} → {DEFAULT if value is None else value}"


def present(server: ServerView, now: Sequence[str], key: str) -> str | None:
    """The value in force: by the command line, else by the server's own account."""
    on_line = value_of(now, key, server.flags)
    return on_line if on_line is not None else server.in_force.get(main_name(key, server.flags))


def sentence(found: Iterable[RetuneOrder], servers: Sequence[ServerView], in_flight: int) -> str:
    """What an order does and costs, for the preview."""
    orders_ = list(found)
    by_name = {server.name: server for server in servers}
    words = {order.words for order in orders_}
    parts = [f"{order.server}: {order.words}" for order in orders_]
    text = (
        f"{', '.join(o.server for o in orders_)}: {words.pop()}"
        if len(words) == 1
        else ("; ".join(parts))
    )
    one = len(orders_) == 1
    it = "it" if one else "them"
    held = {
        "hold": f" with what is in flight on {it} held",
        "drain": f" when what is in flight on {it} has finished",
        "abort": f" and what is in flight on {it} is thrown away and generated again",
    }[orders_[0].in_flight if orders_ else "hold"]
    held = held if in_flight else ""
    text += f". It is stopped{held}" if one else f". They are stopped one after the other{held}"
    starts = [s for o in orders_ if (s := by_name[o.server].last_start_s) is not None]
    took = f" (the last start took {max(starts):.0f} s)" if starts else ""
    text += f" and started again{took}; settings that do not start are taken back"
    if any(by_name[o.server].flags is None for o in orders_):
        text += ". What the installed server knows is looked up first"
    for warning in dict.fromkeys(w for o in orders_ for w in o.warnings):
        text += f". Note: {warning}"
    return text
