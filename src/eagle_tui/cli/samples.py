"""`eagle-tui samples`: the Samples screen without a screen. Lists stored responses, or prints one.

Read by the same bounded looks as the screen (`reader/`), so a file of any size costs no memory, and
without a supervisor: a run that is down or was copied is read in the same way.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import click

from eagle_tui import fmt
from eagle_tui.cli.common import RUN, cut, rundir, width
from eagle_tui.cli.look import ask_files
from eagle_tui.reader.files import RunFiles
from eagle_tui.reader.samples import MOST_HEADS
from eagle_tui.records import SAMPLE_ORDERS, SampleHead, SampleOrder, SampleQuery, TokenView
from eagle_tui.ui.sample_text import plain_text
from eagle_tui.ui.wrap import safe, safe_line

FLAGGED = "*"
PREDICTED = "*"
"""Before the id of a token that training predicts."""


@click.command()
@RUN
@click.option(
    "--order", type=click.Choice(SAMPLE_ORDERS), default="newest", show_default=True,
    help="Which samples.",
)  # fmt: skip
@click.option("--dataset", metavar="NAME", help="Of this dataset alone.")
@click.option(
    "--text", default="", help="Those whose prompt, reasoning or answer holds it; case is ignored."
)
@click.option(
    "-n", "limit", type=click.IntRange(1, MOST_HEADS), default=20, show_default=True,
    help="How many.",
)  # fmt: skip
@click.option("--whole", is_flag=True, help="Print each of them whole instead of a line.")
@click.option("--id", "id", metavar="ID", help="Print this one whole.")
@click.option(
    "--tokens", is_flag=True, help="With --id: its tokens with ids, and what training predicts."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def samples(
    run: Path, order: SampleOrder, dataset: str | None, text: str, limit: int, whole: bool,
    id: str | None, tokens: bool, as_json: bool,
) -> None:  # fmt: skip
    """What the target wrote: a list of stored responses, or one of them whole, reasoning and answer
    apart. Exit code 4 when there is no such dataset or response."""
    if tokens and id is None:
        raise click.UsageError("--tokens shows one sample: name it with --id")
    if id is not None:
        ask_files(rundir(run), _one(id, dataset, tokens=tokens, as_json=as_json))
        return
    query = SampleQuery(order=order, dataset=dataset, text=text, limit=limit)
    ask_files(rundir(run), _list(query, whole=whole, as_json=as_json))


Task = Callable[[RunFiles], Awaitable[None]]


def _list(query: SampleQuery, *, whole: bool, as_json: bool) -> Task:
    async def task(files: RunFiles) -> None:
        shown, skipped, now = 0, 0, time.time()
        async for heads, unreadable in looked_through(files, query):
            skipped += unreadable
            for head in heads:
                if whole:
                    if shown and not as_json:
                        click.echo("-" * (width() or 80))
                    await _print(files, head.dataset, head.id, head.offset, as_json=as_json)
                elif as_json:
                    click.echo(json.dumps(head.model_dump(mode="json")))
                else:
                    click.echo(line(head, now, width()))
                shown += 1
        if not shown:
            none = "no sample holds that text" if query.text else f"there is none: {query.order}"
            click.echo(none, err=True)
        if skipped:
            click.echo(f"{skipped} rows cannot be read and are left out", err=True)

    return task


async def looked_through(
    files: RunFiles, query: SampleQuery
) -> AsyncIterator[tuple[Iterable[SampleHead], int]]:
    """What is wanted, look after look, until there is enough of it, with the number of rows that
    cannot be read. The longest are known, and told, only when all was seen."""
    longest: list[SampleHead] = []
    found, cursor = 0, dict[str, int]()
    while True:
        part = {"cursor": cursor, "limit": query.limit - found}
        page = await files.find_samples(query.model_copy(update=part))
        if query.order == "longest":
            longest = sorted([*longest, *page.heads], key=_longest_first)[: query.limit]
            yield (longest if page.done else ()), page.skipped
        else:
            found += len(page.heads)
            yield page.heads, page.skipped
        if page.done or found >= query.limit:
            return
        cursor = page.cursor


def _longest_first(head: SampleHead) -> tuple[int, float]:
    return -head.completion_tokens, -head.at


def line(head: SampleHead, now: float, columns: int | None) -> str:
    """A sample in one line, cut to so many cells: when, dataset, state, tokens, flag, id, title."""
    parts = [
        f"{fmt.moment(head.at, now):<9}",
        f"{head.dataset:<12}",
        f"{head.state:<9}",
        f"{fmt.count(head.completion_tokens):>5}",
        FLAGGED if head.flagged else " ",
        head.id,
        head.title,
    ]
    return cut(safe_line(" ".join(parts)), columns)


def _one(id: str, dataset: str | None, *, tokens: bool, as_json: bool) -> Task:
    async def task(files: RunFiles) -> None:
        name, offset = (dataset, None) if dataset else await files.where_is(id)
        assert name is not None
        await _print(files, name, id, offset, tokens=tokens, as_json=as_json)

    return task


async def _print(
    files: RunFiles,
    dataset: str,
    id: str,
    offset: int | None,
    *,
    tokens: bool = False,
    as_json: bool = False,
) -> None:
    sample = await files.sample(dataset, id, offset)
    view = await files.sample_tokens(dataset, id, offset) if tokens else None
    if as_json:
        body: dict[str, Any] = sample.model_dump(mode="json")
        if view is not None:
            body["tokens"] = view.model_dump(mode="json")
        click.echo(json.dumps(body))
    elif view is None:
        click.echo(safe(plain_text(sample)), nl=False)
    else:
        for text in token_text(view, width() or 100):
            click.echo(text)


def token_text(view: TokenView, columns: int) -> list[str]:
    """The token view as lines: pieces of text over their ids, predicted ones marked."""
    # Imported here: it comes with Textual, and most lists do without it.
    from eagle_tui.ui.token_lines import summary, token_lines

    lines = [f"{summary(view)}  ({PREDICTED} predicted)"]
    for item in token_lines(view, columns, PREDICTED):
        text = item.text if item.text else "".join(cell.text for cell in item.cells)
        lines.append(text.rstrip())
    return lines


COMMANDS = [samples]
