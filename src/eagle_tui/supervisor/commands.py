"""The operator's verbs: what each changes, when it is refused, and what it would cost.

Pure: a view of the run goes in, a change of the desired state (or a refusal) comes out.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eagle_tui.actions import BY_VERB
from eagle_tui.config.model import PHASES, RunConfig
from eagle_tui.protocol import PhaseStatus, Preview
from eagle_tui.rundir.desired import DatasetControl, Desired, Retry, limits, total_caps
from eagle_tui.supervisor.figures import DatasetFigures
from eagle_tui.supervisor.phases import PAUSABLE
from eagle_tui.supervisor.tuning import order
from eagle_tui.supervisor.tuning.order import RetuneOrder, ServerView
from eagle_tui.supervisor.undo import Earlier, Overtaken, no_earlier, put_back, words
from eagle_tui.supervisor.work import plan

MAX_CONCURRENCY = 65_536
TOTAL = "total"
"""In place of a dataset's name: all datasets together."""
RETRIED = ("failed", "over_context", "aborted", "no_answer", "loop", "truncated")
"""States whose prompts can be generated again."""


LONGEST_ID, LONGEST_NOTE = 200, 500


class Refusal(ValueError):
    """The verb cannot be carried out; the message says why and what can be done."""


@dataclass(frozen=True)
class View:
    """What the verbs look at."""

    config: RunConfig
    desired: Desired
    phases: dict[str, PhaseStatus]
    datasets: dict[str, DatasetFigures]
    paused_by_itself: bool = False
    """The worker pauses for a reason of its own, such as a full disk."""
    tok_s: float | None = None
    servers: Callable[[], Sequence[ServerView]] = tuple
    """The servers; asked for only by who needs them, since it may begin to look things up."""
    earlier: Callable[[str], Earlier] = no_earlier
    """An accepted command by the beginning of its id, or for `` the newest that can be taken back.
    LookupError, with a sentence, when there is none."""


@dataclass(frozen=True)
class Change:
    """What a verb does."""

    desired: Desired
    sentence: str
    again: tuple[str, ...] = ()
    """Phases whose manifest goes, so that they run again."""
    forgive: tuple[str, ...] = ()
    """Phases whose failure is forgotten."""
    retunes: tuple[RetuneOrder, ...] = ()
    """Servers whose settings change."""
    flag: dict[str, Any] | None = None
    """A response to be marked, or with `remove` no more."""
    down: bool = False
    drops_work: bool = False


def _near(name: str, known: Iterable[str], what: str) -> Refusal:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
    return Refusal(f"no {what} is named {name!r}{hint}")


def _dataset(view: View, args: dict[str, Any]) -> str:
    names = [d.name for d in view.config.dataset if d.kind == "prompts"]
    name = args.get("dataset")
    if not isinstance(name, str) or not name:
        raise Refusal(f"name a dataset; there are: {', '.join(names)}")
    if name not in names:
        if any(d.name == name for d in view.config.dataset):
            raise Refusal(f"{name} is native: nothing is generated for it")
        raise _near(name, names, "dataset")
    return name


def _count(args: dict[str, Any], key: str, most: int | None = None) -> int | None:
    value = args.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Refusal(f"{key}: expected a whole number, at least 1; found {value!r}")
    if most is not None and value > most:
        raise Refusal(f"{key}: {value:,} is more than the most allowed, {most:,}")
    return value


def _control(view: View, name: str, **changes: Any) -> Desired:
    control = view.desired.datasets.get(name, DatasetControl())
    datasets = {**view.desired.datasets, name: control.model_copy(update=changes)}
    return _next(view, datasets=datasets)


def _next(view: View, **changes: Any) -> Desired:
    return view.desired.model_copy(update={"seq": view.desired.seq + 1, **changes})


def _in_flight(view: View) -> int:
    return sum(f.in_flight for f in view.datasets.values())


def _reopened(view: View, desired: Desired, sentence: str) -> Change:
    """The change, with generation taken up again when it was done already."""
    if view.phases["generate"].state not in ("done", "stale"):
        return Change(desired, sentence)
    _nothing_later_runs(view, "generate")
    again = tuple(p for p in ("generate", "merge") if p in view.config.run.phases)
    finish = tuple(p for p in desired.finish if p != "generate")
    return Change(desired.model_copy(update={"finish": finish}), sentence, again=again)


def _nothing_later_runs(view: View, phase: str) -> None:
    """Making a phase anew would take the ground, and the GPUs, from under a later one that runs."""
    for later in PHASES[PHASES.index(phase) + 1 :]:
        if view.phases[later].state in ("running", "draining", "stalled", "paused"):
            raise Refusal(
                f"{later} is running on what {phase} made; wait for it, or `eagle-tui down`, take "
                f"{later} out of run.phases, and `up`"
            )


def _pause(view: View, args: dict[str, Any]) -> Change:
    mode = args.get("mode") or "hold"
    if mode not in ("hold", "drain", "abort"):
        raise Refusal(f"mode: expected hold, drain or abort; found {mode!r}")
    if view.phases["generate"].state == "done":
        raise Refusal("generate is done: there is nothing to pause")
    n = _in_flight(view)
    sentence = {
        "hold": f"{n} requests in flight are ended; their tokens are kept and continued on resume",
        "drain": f"no new requests; the {n} in flight finish first",
        "abort": f"the {n} requests in flight are thrown away and generated again later",
    }[mode]
    return Change(_next(view, pause=mode), sentence, drops_work=mode == "abort" and n > 0)


def _resume(view: View, args: dict[str, Any]) -> Change:
    if view.desired.pause == "no" and not view.paused_by_itself:
        raise Refusal("generation is not paused")
    return Change(_next(view, pause="no"), "generation goes on")


def _cap_total(view: View, args: dict[str, Any]) -> Change:
    """Caps over all datasets together."""
    tokens, samples = _count(args, "tokens"), _count(args, "samples")
    changes: dict[str, Any] = {}
    if args.get("none"):
        changes = {"cap_tokens_total": 0, "cap_samples_total": 0}
    if tokens is not None:
        changes["cap_tokens_total"] = tokens
    if samples is not None:
        changes["cap_samples_total"] = samples
    if not changes:
        raise Refusal("total: say the cap, for example --tokens 50M or --samples 50000, or --none")
    desired = _next(view, **changes)
    caps = total_caps(view.config, desired)
    words = _cap_words(caps.tokens, caps.samples)
    sentence = f"all datasets together: {words}; {_have(view.datasets.values())}"
    return _reopened(view, desired, sentence + _difference(view, desired))


def _cap(view: View, args: dict[str, Any]) -> Change:
    if args.get("dataset") == TOTAL:
        return _cap_total(view, args)
    name = _dataset(view, args)
    tokens, samples = _count(args, "tokens"), _count(args, "samples")
    figures = view.datasets.get(name, DatasetFigures())
    if args.get("none"):
        if tokens or samples:
            raise Refusal("give a cap or --none, not both")
        desired = _control(view, name, cap_tokens=0, cap_samples=0)
        left = max(0, figures.prompts - figures.done)
        sentence = f"{name}: no cap; {left:,} prompts left"
        return _reopened(view, desired, sentence + _difference(view, desired))
    if tokens is None and samples is None:
        raise Refusal(f"{name}: say the cap, for example --tokens 10M or --samples 500, or --none")
    changes: dict[str, Any] = {}
    if tokens is not None:
        changes["cap_tokens"] = tokens
    if samples is not None:
        changes["cap_samples"] = samples
    desired = _control(view, name, **changes)
    lim = limits(view.config, desired, view.config.dataset_named(name))
    sentence = f"{name}: {_cap_words(lim.cap_tokens, lim.cap_samples)}; {_have([figures])}"
    return _reopened(view, desired, sentence + _difference(view, desired, name))


def _cap_words(tokens: int | None, samples: int | None) -> str:
    caps = [f"{tokens:,} tokens"] if tokens else []
    caps += [f"{samples:,} responses"] if samples else []
    return f"cap at {' and '.join(caps)}" if caps else "no cap"


def _have(datasets: Iterable[DatasetFigures]) -> str:
    have = list(datasets)
    done = sum(f.done for f in have)
    return f"{sum(f.tokens for f in have):,} tokens in {done:,} responses now"


def _difference(view: View, desired: Desired, name: str | None = None) -> str:
    """What is expected to come still under new caps (of one dataset, or of all), and what that
    saves or costs against those that hold now. The caps over all datasets are respected: what one
    dataset leaves may go to those after it."""
    before = plan(view.config, view.desired, view.datasets)
    after = plan(view.config, desired, view.datasets)
    names = [name] if name else list(after)
    if any(after[n].tokens is None for n in names):
        return ""
    more = sum(math.ceil(after[n].prompts) for n in names)
    figures = [view.datasets.get(n, DatasetFigures()) for n in names]
    out = max(0, sum(f.prompts - f.done for f in figures) - more)
    words = f"about {more:,} more" if more else "no more than what is in flight"
    text = f"; {words}, {out:,} prompts left out"
    change = sum((after[n].tokens or 0.0) - (before[n].tokens or 0.0) for n in after)
    if abs(change) >= 1 and view.tok_s:
        text += f", {'saves' if change < 0 else 'costs'} about {_time(abs(change) / view.tok_s)}"
    return text


def _time(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _concurrency(view: View, args: dict[str, Any]) -> Change:
    name = _dataset(view, args)
    value = _count(args, "value", MAX_CONCURRENCY)
    if value is None:
        raise Refusal(f"{name}: say how many requests may be in flight, for example 64")
    now = limits(view.config, view.desired, view.config.dataset_named(name)).concurrency
    desired = _control(view, name, concurrency=value)
    return Change(desired, f"{name}: {now} → {value} requests in flight")


def _skip(view: View, args: dict[str, Any]) -> Change:
    name = _dataset(view, args)
    undo = bool(args.get("undo"))
    figures = view.datasets.get(name, DatasetFigures())
    left = max(0, figures.prompts - figures.done)
    if undo:
        sentence = f"{name}: taken in again; {left:,} prompts left"
        return _reopened(view, _control(view, name, skip=False), sentence)
    sentence = f"{name}: {left:,} prompts are left out; the {figures.done:,} responses stay"
    return Change(_control(view, name, skip=True), sentence)


def _order(view: View, args: dict[str, Any]) -> Change:
    names = args.get("datasets")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise Refusal("name the datasets that come first")
    known = [d.name for d in view.config.dataset]
    for name in names:
        if name not in known:
            raise _near(name, known, "dataset")
    if len(set(names)) != len(names):
        raise Refusal("a dataset is named twice")
    order = (*names, *(n for n in view.desired.order if n not in names))
    return Change(_next(view, order=order), f"first: {', '.join(names)}")


def _phase(view: View, args: dict[str, Any], default: Iterable[str]) -> str:
    name = args.get("phase")
    if name is None:
        name = next(iter(default), None)
        if name is None:
            raise Refusal("name a phase: none stands out now")
    if name not in PHASES:
        raise _near(str(name), PHASES, "phase")
    return str(name)


def _advance(view: View, args: dict[str, Any]) -> Change:
    open_now = [p for p in PHASES if view.phases[p].state not in ("done", "pending", "blocked")]
    name = _phase(view, args, open_now)
    state = view.phases[name].state
    if state == "done":
        raise Refusal(f"{name} is done")
    if state in ("pending", "blocked"):
        raise Refusal(f"{name} is {state}: there is nothing yet to go on with")
    if name not in PAUSABLE:
        raise Refusal(f"{name} cannot end early: what comes after it needs all of it")
    done = sum(f.done for f in view.datasets.values())
    native = any(d.kind == "native" for d in view.config.dataset)
    if not done and not native:
        raise Refusal("there is no response yet to go on with")
    shares = plan(view.config, view.desired, view.datasets).values()
    left = sum(math.ceil(share.prompts) for share in shares)
    n = min(_in_flight(view), left)
    left -= n
    finish = (*(p for p in view.desired.finish if p != name), name)
    sentence = f"{name} ends with {done:,} responses; {left:,} prompts are left out"
    if n:
        sentence += f"; the {n} in flight finish first"
    return Change(_next(view, finish=finish), sentence, drops_work=left > 0)


def _retry(view: View, args: dict[str, Any]) -> Change:
    state = args.get("state") or "failed"
    if state not in RETRIED:
        raise Refusal(f"state: expected one of {', '.join(RETRIED)}; found {state!r}")
    name = _dataset(view, args) if args.get("dataset") is not None else None
    datasets = [view.datasets[name]] if name in view.datasets else list(view.datasets.values())
    count = sum(figures.states[state] for figures in datasets)
    where = f" of {name}" if name else ""
    if not count:
        raise Refusal(f"no prompt{where} is in state {state}")
    seq = view.desired.seq + 1
    order = Retry(seq=seq, dataset=name, states=(state,))
    desired = _next(view, retries=(*view.desired.retries, order))
    sentence = f"{count:,} prompts{where} in state {state} are generated again"
    change = _reopened(view, desired, sentence)
    # Those that failed hold nothing; an answer that is replaced is kept among the dead letters.
    return replace(change, drops_work=state not in ("failed", "over_context", "aborted"))


def _rerun(view: View, args: dict[str, Any]) -> Change:
    again = [p for p in PHASES if view.phases[p].state in ("failed", "stale")]
    name = _phase(view, args, again)
    state = view.phases[name].state
    if name not in view.config.run.phases:
        raise Refusal(f"{name} is not named in run.phases of run.toml")
    if state not in ("done", "stale", "failed"):
        raise Refusal(f"{name} is {state}; only a phase that is done, stale or failed runs again")
    _nothing_later_runs(view, name)
    finish = tuple(p for p in view.desired.finish if p != name)
    after = PHASES[PHASES.index(name) + 1 :]
    cheap = tuple(p for p in after if p == "merge" and p in view.config.run.phases)
    sentence = f"{name} runs again; finished work is kept and reused"
    if cheap:
        sentence += f"; {', '.join(cheap)} after it"
    return Change(
        _next(view, finish=finish), sentence, again=(name, *cheap), forgive=(name, *cheap)
    )


def _retune(view: View, args: dict[str, Any]) -> Change:
    servers = view.servers()
    name = args.get("server")
    names = [server.name for server in servers]
    if name is not None and name not in names:
        raise _near(str(name), names, "server")
    try:
        found = order.orders(servers, name, args.get("settings"))
    except order.CannotRetune as error:
        raise Refusal(str(error)) from error
    return Change(_next(view), order.sentence(found, servers, _in_flight(view)), retunes=found)


def _undo(view: View, args: dict[str, Any]) -> Change:
    try:
        earlier = view.earlier(str(args.get("command") or ""))
        desired = put_back(view.desired, earlier.edits)
    except (LookupError, Overtaken) as error:
        raise Refusal(str(error)) from error
    if any(edit.path == ("pause",) for edit in earlier.edits) and (
        desired.pause != "no" and view.phases["generate"].state == "done"
    ):
        raise Refusal("generate is done: there is nothing to pause")
    desired = desired.model_copy(update={"seq": view.desired.seq + 1})
    sentence = f"{earlier.words}: {words(earlier.edits, view.config)}"
    if any(edit.path[-1] == "skip" or "cap_" in edit.path[-1] for edit in earlier.edits):
        return _reopened(view, desired, sentence)
    return Change(desired, sentence)


def _flag(view: View, args: dict[str, Any]) -> Change:
    names = [d.name for d in view.config.dataset]
    name, id = args.get("dataset"), args.get("id")
    if name not in names:
        raise _near(str(name), names, "dataset")
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
    n = _in_flight(view)
    held = f"; {n} requests in flight are held and continued after `up`" if n else ""
    return Change(_next(view), f"workers and servers stop{held}", down=True)


def _up(view: View, args: dict[str, Any]) -> Change:
    failed = tuple(p for p in PHASES if view.phases[p].state == "failed")
    return Change(_next(view), "the run goes on", forgive=failed)


VERBS: dict[str, Callable[[View, dict[str, Any]], Change]] = {
    "pause": _pause,
    "resume": _resume,
    "cap": _cap,
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
        raise _near(verb, VERBS, "command")
    action = BY_VERB.get(verb)
    known = {p.name for p in action.params} if action else set()
    for name in args:
        if name not in known:
            raise _near(name, known, f"argument of {verb}")
    return run(view, args)


def preview(view: View, verb: str, args: dict[str, Any]) -> Preview:
    """What a verb would do, without doing it."""
    try:
        change = apply(view, verb, args)
    except Refusal as refusal:
        return Preview(allowed=False, sentence=str(refusal))
    return Preview(allowed=True, sentence=change.sentence, drops_work=change.drops_work)
