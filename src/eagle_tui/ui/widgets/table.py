"""A table with a cursor: rows known by a key, scrolled so that the cursor's row is in sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style
from textual import events
from textual.containers import Vertical
from textual.message import Message

from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.grid import Column, Grid, choose_columns, rows_of

Cells = Mapping[str, Line]
"""A row: the line of each column shown."""
Texts = Mapping[str, tuple[str, Style]]


class Table(Vertical):
    """A header, rows, perhaps a last row that stays. Subclasses give `keys`, `widths` and the rows.

    The cursor stays on its key when rows come, go or change places.
    """

    DEFAULT_CSS = "Table Grid { height: 1fr; }"
    FOOT = 0
    """Rows below the scrolled ones."""

    class Selected(Message):
        """The cursor stands on another row."""

        def __init__(self, table: Table, key: str) -> None:
            self.table, self.key = table, key
            super().__init__()

    class Opened(Message):
        """The row under the cursor was clicked again."""

        def __init__(self, table: Table, key: str) -> None:
            self.table, self.key = table, key
            super().__init__()

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:
        self.columns = columns
        self.grid = Grid(columns)
        super().__init__(self.grid, id=id)
        self.selected: str | None = None
        self.chosen = False
        """Whether the operator put the cursor where it stands."""
        self._offset = 0
        self._shown_room = 0

    # What a subclass gives

    def keys(self) -> Sequence[str]:
        """The rows' keys in the order shown."""
        raise NotImplementedError

    def widths(self) -> dict[str, int]:
        """The columns shown, each with its width, from left to right."""
        raise NotImplementedError

    def header(self, widths: dict[str, int], hidden: int) -> Cells:
        """The first row; `hidden` rows are out of sight."""
        raise NotImplementedError

    def row(self, key: str, widths: dict[str, int]) -> Cells:
        """One row."""
        raise NotImplementedError

    def foot(self, widths: dict[str, int]) -> Sequence[Cells]:
        """The `FOOT` rows that stay at the end."""
        return ()

    # What all have

    @property
    def canvas(self) -> Canvas:
        """Any canvas of the table, for its palette and glyphs."""
        return self.grid.canvas

    def fill(self) -> None:
        """Draw the rows in sight again; what is the same is not repainted."""
        if self.size.width <= 0 or not self.is_attached:
            return
        keys = list(self.keys())
        widths = self.widths()
        self.grid.show_columns(widths)
        if self.selected not in keys and keys:
            self.select(keys[min(self._offset, len(keys) - 1)])
        cursor = keys.index(self.selected) if self.selected in keys else 0
        room = self.room()
        if room != self._shown_room:
            self._shown_room, self._offset = room, 0
        self._offset = min(max(self._offset, cursor - room + 1), cursor)
        self._offset = min(self._offset, max(len(keys) - room, 0))
        shown = keys[self._offset : self._offset + room]
        lines = [self.header(widths, len(keys) - len(shown))]
        lines += [self.row(key, widths) for key in shown]
        lines += self.foot(widths)
        self.grid.show_cells(
            {key: [line[key] for line in lines] for key in widths},
            cursor=cursor - self._offset + 1 if keys else None,
        )

    def room(self) -> int:
        """Rows between the header and the foot."""
        return max(rows_of(self) - 1 - self.FOOT, 1)

    def select(self, key: str) -> None:
        """Put the cursor on a row."""
        self.selected = key
        self.post_message(self.Selected(self, key))

    def move(self, by: int) -> None:
        """Move the cursor by rows, stopping at the ends."""
        keys = list(self.keys())
        if self.selected not in keys:
            return
        index = min(max(keys.index(self.selected) + by, 0), len(keys) - 1)
        self.chosen = True
        if keys[index] != self.selected:
            self.select(keys[index])
            self.fill()

    def page(self, by: int) -> None:
        """Move the cursor by as many rows as are in sight."""
        self.move(by * self.room())

    def jump(self, to_end: bool) -> None:
        """Put the cursor on the first or the last row."""
        self.move(len(self.keys()) if to_end else -len(self.keys()))

    def on_resize(self, _event: events.Resize) -> None:
        self.fill()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.move(1)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.move(-1)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        keys = list(self.keys())
        index = (offset.y - 1 + self._offset) if offset is not None else -1
        if offset is None or not 0 <= index < len(keys) or not 1 <= offset.y <= self.room():
            return
        self.chosen = True
        if keys[index] == self.selected:
            self.post_message(self.Opened(self, keys[index]))
            return
        self.select(keys[index])
        self.fill()


def drawn(columns: Sequence[Column], widths: Mapping[str, int], texts: Texts) -> dict[str, Line]:
    """A row from a text and a style per column, each cut to its column's width."""
    right = {column.key: column.right for column in columns}
    return {
        key: Pen().cell(*_cell(texts[key], width), right=right[key]).segments
        for key, width in widths.items()
        if key in texts
    }


def _cell(text: tuple[str, Style], width: int) -> tuple[str, int, Style]:
    return text[0], width, text[1]


def titles(
    columns: Sequence[Column], widths: Mapping[str, int], style: Style, hidden: int = 0
) -> dict[str, Line]:
    """The header row; the first column says how many rows are out of sight."""
    first = next(iter(widths), "")
    texts = {column.key: (column.title, style) for column in columns}
    if first in texts:
        more = f" (+{hidden})" if hidden else ""
        texts[first] = (f" {texts[first][0]}{more}", style)
    return drawn(columns, widths, texts)


def fitted(
    columns: Sequence[Column],
    priority: Sequence[str],
    width: int,
    least: dict[str, int],
    stretch: str,
) -> dict[str, int]:
    """The columns that fit, the first in `priority` before the others, in their order from left to
    right; `stretch` takes the cells that are left."""
    chosen = choose_columns(columns, priority, width, least)
    spare = max(width - sum(chosen.values()) - len(chosen), 0)
    chosen[stretch if stretch in chosen else priority[0]] += spare
    return {column.key: chosen[column.key] for column in columns if column.key in chosen}
