"""Tables for the terminal."""

from __future__ import annotations

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
