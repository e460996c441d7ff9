"""`eagle-tui datasets`: the Datasets screen without a screen."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, rundir, width
from eagle_tui.cli.look import ask_files, current
from eagle_tui.cli.tables import add, narrowed, table
from eagle_tui.client_api import NotFound
from eagle_tui.protocol import DatasetStatus, LengthFigures
from eagle_tui.records import FailureCount
from eagle_tui.text import visible
from eagle_tui.ui.dataset_order import SORTS, arranged

BARS = 24
"""Rows of the histogram, at most."""
BAR_CELLS = 40
_HEADS = (
    "dataset", "state", "-done", "-tokens", "-cap", "-/min", "-tok/s", "-mean", "-p50", "-p95",
    "-reasoning", "-trunc", "-loop", "-empty", "-failed", "-left",
)  # fmt: skip

_SPARE = ("-tok/s", "-p50", "-empty", "-loop", "-cap", "-reasoning", "-trunc", "-p95", "-/min")
"""Columns that a narrow terminal does without, the first one first."""


@click.command()
@RUN
@click.argument("dataset", required=False)
@click.option(
    "--sort", "column", type=click.Choice([sort.column for sort in SORTS if sort.column]),
    help="By this column; without it in the order in which they are taken.",
)  # fmt: skip
@click.option(
    "--filter", "words", default="", metavar="WORDS", help="Whose name or state holds them."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a dataset.")
def datasets(run: Path, dataset: str | None, column: str | None, words: str, as_json: bool) -> None:
    """Every dataset: rate, lengths, how its responses ended, caps. With DATASET all that is known
    of it: the last hour, responses by length, and why prompts got none."""
    found = rundir(run)
    status = current(found)
    known = {row.name: row for row in status.datasets}
    if dataset is None:
        order = next(sort for sort in SORTS if sort.column == (column or ""))
        rows = arranged(status.datasets, order, words)
        rows += [status.total] if status.total and not words else []
        if as_json:
            for row in rows:
                click.echo(json.dumps(row.model_dump(mode="json")))
        else:
            _table(rows)
        return
    if dataset not in known:
        raise NotFound(f"no dataset is named {dataset[:60]!r}; there are: {', '.join(known)}")
    row = known[dataset]
    reasons = ask_files(found, lambda files: files.failures(dataset))
    if as_json:
        told = [reason.model_dump(mode="json") for reason in reasons]
        click.echo(json.dumps({**row.model_dump(mode="json"), "reasons": told}))
        return
    _table([row])
    for text in detail(row, reasons):
        click.echo(visible(text))


def _table(rows: list[DatasetStatus]) -> None:
    lines = [
        (
            *(d.name, d.state, fmt.progress(d.done, d.prompts), fmt.count(d.tokens)),
            *(fmt.caps(d.cap_tokens, d.cap_samples), fmt.rate(d.rate_per_min), fmt.rate(d.tok_s)),
            *(fmt.count(d.tokens_mean), fmt.count(d.tokens_p50), fmt.count(d.tokens_p95)),
            *(fmt.percent(d.reasoning_share), d.truncated, d.loop, d.no_answer, d.failed),
            fmt.eta(d.eta_s),
        )
        for d in rows
    ]
    heads, shown = narrowed(_HEADS, lines, width(), _SPARE)
    out = table(*heads)
    for line in shown:
        add(out, *line)
    Console(highlight=False, soft_wrap=True, width=400).print(out)


def detail(row: DatasetStatus, reasons: list[FailureCount]) -> list[str]:
    """What the table does not hold, as lines."""
    # Imported here: it comes with Textual, and only this needs it.
    from eagle_tui.ui.widgets.dataset_detail import joined

    lines = ["", f"in flight  {row.in_flight} of {row.concurrency or fmt.NONE}"]
    lines.append(f"all        {_lengths(row)}")
    hour = _lengths(row.hour) if row.hour else "nothing finished in it"
    lines.append(f"last hour  {hour}")
    bars = joined(row.histogram, BARS)
    most = max((bar.count for bar in bars), default=0)
    total = sum(bar.count for bar in bars)
    lines += ["", "responses by tokens"] if bars else []
    for bar in bars:
        drawn = "#" * round(bar.count / most * BAR_CELLS)
        share = fmt.percent(bar.count / total)
        lines.append(f"{bar.label:>13} {drawn:<{BAR_CELLS}} {fmt.count(bar.count):>6} {share:>4}")
    lines += ["", "why prompts got no response"] if reasons else []
    for reason in reasons:
        given = f" ({fmt.exact(reason.given_up)} given up)" if reason.given_up else ""
        text = f"{fmt.exact(reason.rows):>6}  {reason.state}: {reason.reason}{given}"
        lines.append(text.replace("\n", " "))
    return lines


def _lengths(of: DatasetStatus | LengthFigures) -> str:
    words = [
        f"{title} {fmt.count(getattr(of, f'tokens_{name}'))}"
        for name, title in (
            ("mean", "mean"), ("p50", "P50"), ("p90", "P90"), ("p95", "P95"), ("p99", "P99"),
        )
    ]  # fmt: skip
    words.append(f"reasoning {fmt.percent(of.reasoning_share)}")
    words.append(f"{fmt.count(of.reasoning_mean)} tokens of it")
    return "  ".join(words)


COMMANDS = [datasets]
