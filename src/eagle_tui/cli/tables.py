"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from eagle_tui.text import visible


def table(*columns: str) -> Table:
    """A table without lines. A column whose name begins with `-` is aligned to the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        side: JustifyMethod = "right" if column.startswith("-") else "left"
        table.add_column(column.lstrip("-"), justify=side, no_wrap=True, overflow="ignore")
    return table


def add(table: Table, *cells: object) -> None:
    """Add a row; what others wrote is made harmless and is never markup."""
    table.add_row(*(Text(visible(str(cell))) for cell in cells))


def narrowed(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    columns: int | None,
    spare: Iterable[str],
) -> tuple[list[str], list[list[object]]]:
    """Heads and rows without as many of the `spare` columns, the first one first, as must go for
    lines of at most `columns` cells; None: all stay."""
    kept = list(range(len(heads)))

    def size() -> int:
        lines = [[head.lstrip("-") for head in heads], *rows]
        return sum(2 + max(cell_len(str(line[i])) for line in lines) for i in kept) - 2

    for name in spare:
        if columns is None or size() <= columns:
            break
        kept.remove(heads.index(name))
    return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]
