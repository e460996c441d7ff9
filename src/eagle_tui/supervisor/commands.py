"""The operator's verbs: what each changes, when it is refused, and what it would cost.

Pure: a view of the run goes in, a change of the desired state (or a refusal) comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from eagle_tui.actions import BY_VERB
from eagle_tui.config.model import PHASES
from eagle_tui.protocol import Preview
from eagle_tui.rundir.desired import Retry, limits
from eagle_tui.supervisor import undo
from eagle_tui.supervisor.caps import cap, told_of_the_end
from eagle_tui.supervisor.dataset_figures import DatasetFigures
from eagle_tui.supervisor.phases import ENDABLE
from eagle_tui.supervisor.tuning import order
from eagle_tui.supervisor.tuning.order import RetuneOrder, ServerView
from eagle_tui.supervisor.undo import Earlier, Overtaken, put_back, words
from eagle_tui.supervisor.verb import Change as Change
from eagle_tui.supervisor.verb import Refusal as Refusal
from eagle_tui.supervisor.verb import View as View
from eagle_tui.supervisor.verb import (
    controlled,
    count_of,
    dataset_of,
    following,
    in_flight,
    near,
    nothing_later_runs,
    reopened,
)
from eagle_tui.supervisor.work import plan

MAX_CONCURRENCY = 65_536
RETRIED = ("failed", "over_context", "aborted", "no_answer", "loop", "truncated")
"""States whose prompts can be generated again."""
LONGEST_ID, LONGEST_NOTE = 200, 500


def _pause(view: View, args: dict[str, Any]) -> Change:
    mode = args.get("mode") or "hold"
    if mode not in ("hold", "drain", "abort"):
        raise Refusal(f"mode: expected hold, drain or abort; found {mode!r}")
    if view.phases["generate"].state == "done":
        raise Refusal("generate is done: there is nothing to pause")
    n = in_flight(view)
    sentence = {
        "hold": f"{n} requests in flight are ended; their tokens are kept and continued on resume",
        "drain": f"no new requests; the {n} in flight finish first",
        "abort": f"the {n} requests in flight are thrown away and generated again later",
    }[mode]
    return Change(following(view, pause=mode), sentence, drops_work=mode == "abort" and n > 0)


def _resume(view: View, args: dict[str, Any]) -> Change:
    if view.desired.pause == "no" and not view.paused_by_itself:
        raise Refusal("generation is not paused")
    return Change(following(view, pause="no"), "generation goes on")


def _concurrency(view: View, args: dict[str, Any]) -> Change:
    name = dataset_of(view, args)
    value = count_of(args, "value", MAX_CONCURRENCY)
    if value is None:
        raise Refusal(f"{name}: say how many requests may be in flight, for example 64")
    now = limits(view.config, view.desired, view.config.dataset_named(name)).concurrency
    desired = controlled(view, name, concurrency=value)
    return Change(desired, f"{name}: {now} → {value} requests in flight")


def _skip(view: View, args: dict[str, Any]) -> Change:
    name = dataset_of(view, args)
    undo = bool(args.get("undo"))
    figures = view.datasets.get(name, DatasetFigures())
    left = max(0, figures.prompts - figures.done)
    if undo:
        sentence = f"{name}: taken in again; {left:,} prompts left"
        return reopened(view, controlled(view, name, skip=False), sentence)
    sentence = f"{name}: {left:,} prompts are left out; the {figures.done:,} responses stay"
    return told_of_the_end(view, Change(controlled(view, name, skip=True), sentence))


def _order(view: View, args: dict[str, Any]) -> Change:
    names = args.get("datasets")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise Refusal("name the datasets that come first")
    known = [d.name for d in view.config.dataset]
    for name in names:
        if name not in known:
            raise near(name, known, "dataset")
    if len(set(names)) != len(names):
        raise Refusal("a dataset is named twice")
    order = (*names, *(n for n in view.desired.order if n not in names))
    return Change(following(view, order=order), f"first: {', '.join(names)}")


def _phase(view: View, args: dict[str, Any], default: Iterable[str]) -> str:
    name = args.get("phase")
    if name is None:
        name = next(iter(default), None)
        if name is None:
            raise Refusal("name a phase: none stands out now")
    if name not in PHASES:
        raise near(str(name), PHASES, "phase")
    return str(name)


def _advance(view: View, args: dict[str, Any]) -> Change:
    open_now = [p for p in PHASES if view.phases[p].state not in ("done", "pending", "blocked")]
    name = _phase(view, args, open_now)
    state = view.phases[name].state
    if state == "done":
        raise Refusal(f"{name} is done")
    if state in ("pending", "blocked"):
        raise Refusal(f"{name} is {state}: there is nothing yet to go on with")
    if name not in ENDABLE:
        raise Refusal(f"{name} cannot end early: what comes after it needs all of it")
    finish = (*(p for p in view.desired.finish if p != name), name)
    args = {"phase": name}
    if name != "generate":
        desired = following(view, finish=finish)
        return Change(desired, _ends(view, name), drops_work=True, args=args)
    done = sum(f.done for f in view.datasets.values())
    native = any(d.kind == "native" for d in view.config.dataset)
    if not done and not native:
        raise Refusal("there is no response yet to go on with")
    shares = plan(view.config, view.desired, view.datasets).values()
    left = sum(math.ceil(share.prompts) for share in shares)
    n = min(in_flight(view), left)
    left -= n
    sentence = f"{name} ends with {done:,} responses; {left:,} prompts are left out"
    if n:
        sentence += f"; the {n} in flight finish first"
    return Change(following(view, finish=finish), sentence, drops_work=left > 0, args=args)


def _ends(view: View, name: str) -> str:
    """What it means that extraction or training ends now."""
    status = view.phases[name]
    if name == "extract" and view.config.extract.mode != "stored":
        raise Refusal(
            f"extract.mode = {view.config.extract.mode!r} only plans here; end train instead"
        )
    if not status.done:
        raise Refusal(f"{name} has done nothing yet to go on with")
    whole = f" of {status.total:,}" if status.total else ""
    what = "what it learned is judged and exported" if name == "train" else "the rest is left out"
    return f"{name} ends after {status.done:,}{whole} {status.unit}; {what}".replace(" ;", ";")


def _retry(view: View, args: dict[str, Any]) -> Change:
    state = args.get("state") or "failed"
    if state not in RETRIED:
        raise Refusal(f"state: expected one of {', '.join(RETRIED)}; found {state!r}")
    name = dataset_of(view, args) if args.get("dataset") is not None else None
    datasets = [view.datasets[name]] if name in view.datasets else list(view.datasets.values())
    count = sum(figures.states[state] for figures in datasets)
    where = f" of {name}" if name else ""
    if not count:
        raise Refusal(f"no prompt{where} is in state {state}")
    seq = view.desired.seq + 1
    order = Retry(seq=seq, dataset=name, states=(state,))
    desired = following(view, retries=(*view.desired.retries, order))
    sentence = f"{count:,} prompts{where} in state {state} are generated again"
    change = reopened(view, desired, sentence)
    # Those that failed hold nothing; an answer that is replaced is kept among the dead letters.
    return replace(change, drops_work=state not in ("failed", "over_context", "aborted"))


def _rerun(view: View, args: dict[str, Any]) -> Change:
    stand_out = [p for p in PHASES if view.phases[p].state in ("failed", "stale")]
    name = _phase(view, args, stand_out)
    state = view.phases[name].state
    if name not in view.config.run.phases:
        raise Refusal(f"{name} is not named in run.phases of run.toml")
    if state not in ("done", "stale", "failed"):
        raise Refusal(f"{name} is {state}; only a phase that is done, stale or failed runs again")
    nothing_later_runs(view, name)
    finish = tuple(p for p in view.desired.finish if p != name)
    after = PHASES[PHASES.index(name) + 1 :]
    cheap = tuple(p for p in after if p == "merge" and p in view.config.run.phases)
    sentence = f"{name} runs again; finished work is kept and reused"
    if cheap:
        sentence += f"; {', '.join(cheap)} after it"
    again = (name, *cheap)
    desired = following(view, finish=finish)
    return Change(desired, sentence, again=again, forgive=again, args={"phase": name})


def _retune(view: View, args: dict[str, Any]) -> Change:
    servers = view.servers()
    name = args.get("server")
    names = [server.name for server in servers]
    if name is not None and name not in names:
        raise near(str(name), names, "server")
    try:
        how = args.get("in_flight") or "hold"
        found = order.orders(servers, name, args.get("settings"), how)
    except order.CannotRetune as error:
        raise Refusal(str(error)) from error
    return _retuned(view, found, servers)


def _retuned(view: View, found: Sequence[RetuneOrder], servers: Sequence[ServerView]) -> Change:
    n = in_flight(view)
    return Change(
        following(view),
        order.sentence(found, servers, n),
        retunes=tuple(found),
        drops_work=n > 0 and any(one.in_flight == "abort" for one in found),
    )


def _undo(view: View, args: dict[str, Any]) -> Change:
    try:
        earlier = view.earlier(str(args.get("command") or ""))
        desired = put_back(view.desired, earlier.edits)
    except (LookupError, Overtaken) as error:
        raise Refusal(str(error)) from error
    if tuned := [edit for edit in earlier.edits if edit.path[0] == undo.TUNED]:
        return _tuned_back(view, earlier, tuned)
    if any(edit.path == ("pause",) for edit in earlier.edits) and (
        desired.pause != "no" and view.phases["generate"].state == "done"
    ):
        raise Refusal("generate is done: there is nothing to pause")
    desired = desired.model_copy(update={"seq": view.desired.seq + 1})
    sentence = f"{earlier.words}: {words(earlier.edits, view.config)}"
    if any(edit.path[-1] == "skip" or "cap_" in edit.path[-1] for edit in earlier.edits):
        return told_of_the_end(view, reopened(view, desired, sentence))
    return Change(desired, sentence)


def _tuned_back(view: View, earlier: Earlier, tuned: Sequence[undo.Edit]) -> Change:
    """A retune is taken back by another one."""
    servers = view.servers()
    found: list[RetuneOrder] = []
    try:
        for edit in tuned:
            found += order.orders(servers, edit.path[1], undo.settings_back(edit))
    except order.CannotRetune as error:
        raise Refusal(str(error)) from error
    change = _retuned(view, found, servers)
    return replace(change, sentence=f"{earlier.words}: {change.sentence}")


def _flag(view: View, args: dict[str, Any]) -> Change:
    names = [d.name for d in view.config.dataset]
    name, id = args.get("dataset"), args.get("id")
    if name not in names:
        raise near(str(name), names, "dataset")
    if not isinstance(id, str) or not id or len(id) > LONGEST_ID:
        raise Refusal("name the response by its id")
    note = args.get("note") or ""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE:
        raise Refusal(f"note: expected a text of at most {LONGEST_NOTE} characters")
    remove = bool(args.get("undo"))
    flag = {"dataset": name, "id": id, "note": note, "remove": remove}
    done = "no longer flagged" if remove else "flagged"
    return Change(view.desired, f"{name} {id[:12]} is {done}", flag=flag)


def _down(view: View, args: dict[str, Any]) -> Change:
    n = in_flight(view)
    held = f"; {n} requests in flight are held and continued after `up`" if n else ""
    return Change(following(view), f"workers and servers stop{held}", down=True)


def _up(view: View, args: dict[str, Any]) -> Change:
    failed = tuple(p for p in PHASES if view.phases[p].state == "failed")
    return Change(following(view), "the run goes on", forgive=failed)


VERBS: dict[str, Callable[[View, dict[str, Any]], Change]] = {
    "pause": _pause,
    "resume": _resume,
    "cap": cap,
    "concurrency": _concurrency,
    "skip": _skip,
    "order": _order,
    "advance": _advance,
    "retry": _retry,
    "rerun": _rerun,
    "retune": _retune,
    "undo": _undo,
    "flag": _flag,
    "down": _down,
    "up": _up,
}


def apply(view: View, verb: str, args: dict[str, Any]) -> Change:
    """The change that a verb makes. Refusal when it cannot."""
    run = VERBS.get(verb)
    if run is None:
        raise near(verb, VERBS, "command")
    action = BY_VERB.get(verb)
    known = {p.name for p in action.params} if action else set()
    for name in args:
        if name not in known:
            raise near(name, known, f"argument of {verb}")
    return run(view, args)


def preview(view: View, verb: str, args: dict[str, Any]) -> Preview:
    """What a verb would do, without doing it."""
    try:
        change = apply(view, verb, args)
    except Refusal as refusal:
        return Preview(allowed=False, sentence=str(refusal))
    return Preview(allowed=True, sentence=change.sentence, drops_work=change.drops_work)
