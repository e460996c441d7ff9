"""Tables for the terminal."""

from __future__ import annotations

from rich.console import JustifyMethod
from rich.table import Table


def table(*columns: str) -> Table:
    """A table without lines. A column whose name begins with `-` is aligned to the right."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        side: JustifyMethod = "right" if column.startswith("-") else "left"
        table.add_column(column.lstrip("-"), justify=side, no_wrap=True, overflow="ignore")
    return table
