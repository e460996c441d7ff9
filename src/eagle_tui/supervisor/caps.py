"""The verb `cap`: caps of a dataset or of all together, and what they save or cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from eagle_tui.rundir.desired import Desired, limits, total_caps
from eagle_tui.supervisor.dataset_figures import DatasetFigures
from eagle_tui.supervisor.verb import (
    Change,
    Refusal,
    View,
    controlled,
    count_of,
    dataset_of,
    following,
    reopened,
)
from eagle_tui.supervisor.work import plan

TOTAL = "total"
"""In place of a dataset's name: all datasets together."""


def _cap_total(view: View, args: dict[str, Any]) -> Change:
    """Caps over all datasets together."""
    tokens, samples = count_of(args, "tokens"), count_of(args, "samples")
    changes: dict[str, Any] = {}
    if args.get("none"):
        changes = {"cap_tokens_total": 0, "cap_samples_total": 0}
    if tokens is not None:
        changes["cap_tokens_total"] = tokens
    if samples is not None:
        changes["cap_samples_total"] = samples
    if not changes:
        raise Refusal("total: say the cap, for example --tokens 50M or --samples 50000, or --none")
    desired = following(view, **changes)
    caps = total_caps(view.config, desired)
    words = _cap_words(caps.tokens, caps.samples)
    sentence = f"all datasets together: {words}; {_have(view.datasets.values())}"
    return reopened(view, desired, sentence + _difference(view, desired))


def cap(view: View, args: dict[str, Any]) -> Change:
    """Caps of one dataset, or of all together. Refusal when they make no sense."""
    total = args.get("dataset") == TOTAL
    return told_of_the_end(view, _cap_total(view, args) if total else _cap_one(view, args))


def told_of_the_end(view: View, change: Change) -> Change:
    """A cap, or a dataset left out, that leaves nothing to be generated begins the next phase, and
    there is no way back while that runs: to be confirmed."""
    if view.phases["generate"].state in ("done", "pending", "blocked"):
        return change
    before = plan(view.config, view.desired, view.datasets).values()
    after = plan(view.config, change.desired, view.datasets).values()
    if any(share.prompts for share in after) or not any(share.prompts for share in before):
        return change
    sentence = f"{change.sentence}; nothing is left to generate, so the next phase begins"
    return replace(change, sentence=sentence, drops_work=True)


def _cap_one(view: View, args: dict[str, Any]) -> Change:
    name = dataset_of(view, args)
    tokens, samples = count_of(args, "tokens"), count_of(args, "samples")
    figures = view.datasets.get(name, DatasetFigures())
    if args.get("none"):
        if tokens or samples:
            raise Refusal("give a cap or --none, not both")
        desired = controlled(view, name, cap_tokens=0, cap_samples=0)
        left = max(0, figures.prompts - figures.done)
        sentence = f"{name}: no cap; {left:,} prompts left"
        return reopened(view, desired, sentence + _difference(view, desired))
    if tokens is None and samples is None:
        raise Refusal(f"{name}: say the cap, for example --tokens 10M or --samples 500, or --none")
    changes: dict[str, Any] = {}
    if tokens is not None:
        changes["cap_tokens"] = tokens
    if samples is not None:
        changes["cap_samples"] = samples
    desired = controlled(view, name, **changes)
    lim = limits(view.config, desired, view.config.dataset_named(name))
    sentence = f"{name}: {_cap_words(lim.cap_tokens, lim.cap_samples)}; {_have([figures])}"
    return reopened(view, desired, sentence + _difference(view, desired, name))


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
