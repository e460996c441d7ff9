"""A table whose columns are widgets of their own, so that a changed cell costs that cell's bytes.

Textual repaints a dirty region from its widget's left edge. With one widget over the full width, a
figure at the right end of a row would send the whole row each second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual.containers import Horizontal
from textual.strip import Strip
from textual.widget import Widget

from eagle_tui.ui.canvas import Canvas, Line


@dataclass(frozen=True)
class Column:
    """One column. `width` is in cells and excludes the gap of one cell that follows."""

    key: str
    title: str
    width: int
    right: bool = False


class ColumnCanvas(Canvas):
    """The cells of one column, from the top."""

    def __init__(self, column: Column) -> None:
        super().__init__()
        self.column = column
        self.cells: list[Line] = []
        self.cursor: int | None = None
        """The row drawn on the cursor's ground."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        for y, cell in enumerate(self.cells):
            if y == self.cursor:
                padded = Strip(cell).adjust_cell_length(width)
                yield list(Segment.apply_style(padded, post_style=self.palette.cursor))
            else:
                yield cell


class Grid(Horizontal):
    """A row of column widgets. Which are shown, and how wide, is set without mounting anew."""

    DEFAULT_CSS = "Grid { height: 1; } Grid ColumnCanvas { height: 1fr; }"

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:
        self._canvases = {column.key: ColumnCanvas(column) for column in columns}
        self._widths: dict[str, int] = {}
        super().__init__(*self._canvases.values(), id=id)

    @property
    def canvas(self) -> Canvas:
        """Any one of the columns, for its palette and glyphs."""
        return next(iter(self._canvases.values()))

    def show_columns(self, widths: dict[str, int]) -> None:
        """Show the columns named, each in its width (plus gap), and hide the others."""
        if widths == self._widths:
            return
        self._widths = dict(widths)
        for key, canvas in self._canvases.items():
            canvas.display = key in widths
            if key in widths:
                canvas.styles.width = widths[key] + 1

    def show_cells(self, cells: dict[str, list[Line]], cursor: int | None = None) -> None:
        """Put in the columns' cells, from the top; columns left out keep what they have."""
        for key, lines in cells.items():
            canvas = self._canvases[key]
            canvas.cells, canvas.cursor = lines, cursor
            canvas.redraw()


def rows_of(widget: Widget) -> int:
    """Rows for a widget's content. A height that was just set is laid out only before the next
    painting, and what is painted then should fill it."""
    styles = widget.styles
    if styles.height is None or not styles.height.is_cells or styles.max_height is not None:
        return widget.size.height
    return int(styles.height.value) - styles.gutter.height


def choose_columns(
    columns: Sequence[Column], priority: Sequence[str], width: int, least: dict[str, int]
) -> dict[str, int]:
    """Which columns fit into `width` cells: those first in `priority`, each with its width.

    `least` overrides a column's width (such as the name's, by the longest name). Every column costs
    its width and one cell of gap. The first one is always there, cut where it has to be.
    """
    by_key = {column.key: column for column in columns}
    chosen: dict[str, int] = {}
    room = width
    for key in priority:
        need = least.get(key, by_key[key].width)
        if key == priority[0]:
            need = max(min(need, width - 1), 1)
            room = max(room, need + 1)
        if need + 1 <= room:
            chosen[key] = need
            room -= need + 1
    return chosen
