"""`eagle-tui result`: the Result screen without a screen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console

from eagle_tui.cli.common import RUN, rundir, width
from eagle_tui.cli.look import ask_files, current
from eagle_tui.cli.tables import add, narrowed, table
from eagle_tui.result import BenchReport, ResultRecord
from eagle_tui.text import visible
from eagle_tui.ui import result_tables as tables


@click.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="All of it as JSON.")
def result(run: Path, as_json: bool) -> None:
    """What the benchmark found: whether the drafter is a gain, accept lengths, datasets, settings,
    and how it is served. While there is none: what comes before it."""
    found = rundir(run)
    record = ask_files(found, lambda files: files.result())
    if as_json:
        body = record.model_dump(mode="json")
        if record.report is not None:
            body["brief"] = record.report.outcome.brief
        click.echo(json.dumps(body, indent=2))
        return
    if record.problem:
        click.echo(f"eagle-tui: {visible(record.problem)}", err=True)
    if record.report is not None:
        _report(record.report)
    elif not record.problem:
        for sentence in tables.waiting(current(found).phases):
            click.echo(visible(sentence))
    _leavings(record)


def _report(report: BenchReport) -> None:
    click.echo(visible(tables.headline(report.outcome)))
    if report.outcome.verdict:
        click.echo(visible(report.outcome.verdict))
    click.echo()
    for label, words in tables.facts(report):
        click.echo(visible(f"{label:<10}{words}"))
    for hint in report.hints:
        click.echo(visible(f"{'look at':<10}{hint}"))
    if report.datasets:
        _print(tables.DATASET_HEADS, map(tables.dataset_cells, report.datasets))
    if report.settings:
        _print(tables.SETTING_HEADS, map(tables.setting_cells, report.settings))


def _print(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    spare = ("-tok/s without", "-tok/s with")
    shown_heads, shown = narrowed(heads, list(rows), width(), spare)
    drawn = table(*shown_heads)
    for row in shown:
        add(drawn, *row)
    click.echo()
    Console(highlight=False, soft_wrap=True, width=400).print(drawn)


def _leavings(record: ResultRecord) -> None:
    report = record.report
    if report is not None and report.serve:
        click.echo(f"\nTo serve it:\n  {visible(report.serve)}")
        if report.flags:
            click.echo(visible(f"  (measured with {report.flags})"))
    if record.files:
        click.echo()
    for file in record.files:
        click.echo(visible(f"{file.label:<12}{file.path}"))


COMMANDS = [result]
