"""What every verb works with: the view of the run, the change that it makes, the refusal. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagle_tui.config.model import PHASES, RunConfig
from eagle_tui.protocol import PhaseStatus
from eagle_tui.rundir.desired import DatasetControl, Desired
from eagle_tui.supervisor.dataset_figures import DatasetFigures
from eagle_tui.supervisor.tuning.order import RetuneOrder, ServerView
from eagle_tui.supervisor.undo import Earlier, no_earlier

MOST = (1 << 63) - 1
"""The largest number that an order may name: that of run.toml."""


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
    args: dict[str, Any] = field(default_factory=dict)
    """Arguments that the order left open, as they were taken."""


def near(name: str, known: Iterable[str], what: str) -> Refusal:
    """No such name; with the nearest one, or all of them."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(names)}"
    return Refusal(f"no {what} is named {name!r}{hint}")


def dataset_of(view: View, args: dict[str, Any]) -> str:
    """The dataset that the order names, whose responses are generated. Refusal: there is none."""
    names = [d.name for d in view.config.dataset if d.kind == "prompts"]
    name = args.get("dataset")
    if not isinstance(name, str) or not name:
        raise Refusal(f"name a dataset; there are: {', '.join(names)}")
    if name not in names:
        if any(d.name == name for d in view.config.dataset):
            raise Refusal(f"{name} is native: nothing is generated for it")
        raise near(name, names, "dataset")
    return name


def count_of(args: dict[str, Any], key: str, most: int = MOST) -> int | None:
    """A whole number of the order, from 1 to `most`; None: it names none. Refusal: it is none."""
    value = args.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Refusal(f"{key}: expected a whole number, at least 1; found {value!r}")
    if value > most:
        raise Refusal(f"{key}: {value:,} is more than the most allowed, {most:,}")
    return value


def controlled(view: View, name: str, **changes: Any) -> Desired:
    """The desired state with changes of one dataset."""
    control = view.desired.datasets.get(name, DatasetControl())
    datasets = {**view.desired.datasets, name: control.model_copy(update=changes)}
    return following(view, datasets=datasets)


def following(view: View, **changes: Any) -> Desired:
    """The desired state that comes next, with changes."""
    return view.desired.model_copy(update={"seq": view.desired.seq + 1, **changes})


def in_flight(view: View) -> int:
    """Requests in flight now."""
    return sum(f.in_flight for f in view.datasets.values())


def reopened(view: View, desired: Desired, sentence: str) -> Change:
    """The change, with generation taken up again when it was done already."""
    if view.phases["generate"].state not in ("done", "stale"):
        return Change(desired, sentence)
    nothing_later_runs(view, "generate")
    again = tuple(p for p in ("generate", "merge") if p in view.config.run.phases)
    finish = tuple(p for p in desired.finish if p != "generate")
    return Change(desired.model_copy(update={"finish": finish}), sentence, again=again)


def nothing_later_runs(view: View, phase: str) -> None:
    """Making a phase anew would take the ground, and the GPUs, from under a later one that runs."""
    for later in PHASES[PHASES.index(phase) + 1 :]:
        if view.phases[later].state in ("running", "draining", "stalled", "paused"):
            raise Refusal(
                f"{later} is running on what {phase} made; wait for it, or `eagle-tui down`, take "
                f"{later} out of run.phases, and `up`"
            )
