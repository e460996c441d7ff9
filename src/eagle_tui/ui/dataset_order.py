"""In which order the dataset table shows its rows, and which: sort and filter. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eagle_tui import fmt
from eagle_tui.protocol import DatasetStatus


@dataclass(frozen=True)
class Sort:
    """One way to sort. Unknown figures come last, whichever way."""

    column: str
    """The column of the table that it goes by; empty: the run's own order."""
    title: str
    key: Callable[[DatasetStatus], float | str | None] | None = None
    falling: bool = True


SORTS: tuple[Sort, ...] = (
    Sort("", "the order in which they are taken"),
    Sort("name", "name", lambda row: row.name, falling=False),
    Sort("state", "state", lambda row: row.state, falling=False),
    Sort("done", "responses", lambda row: row.done),
    Sort("percent", "share done", lambda row: fmt.share(row.done, row.prompts)),
    Sort("tokens", "tokens", lambda row: row.tokens),
    Sort("rate", "responses per minute", lambda row: row.rate_per_min),
    Sort("mean", "mean tokens", lambda row: row.tokens_mean),
    Sort("failed", "failed", lambda row: row.failed + row.no_answer + row.loop),
    Sort("eta", "time left", lambda row: row.eta_s[1] if row.eta_s else None),
)
"""What the sort key steps through."""


def arranged(rows: Iterable[DatasetStatus], sort: Sort, filter_: str) -> list[DatasetStatus]:
    """The rows whose name or state holds every word of the filter, sorted; stable."""
    words = filter_.lower().split()
    found = [
        row for row in rows if all(word in f"{row.name} {row.state}".lower() for word in words)
    ]
    key = sort.key
    if key is None:
        return found
    known = [row for row in found if key(row) is not None]
    known.sort(key=key, reverse=sort.falling)  # type: ignore[arg-type]
    return known + [row for row in found if key(row) is None]


def next_sort(sort: Sort) -> Sort:
    """The one after it; after the last the first."""
    return SORTS[(SORTS.index(sort) + 1) % len(SORTS)]
