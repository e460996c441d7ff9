"""The dataset table: what was typed by hand every hour, kept up to date by itself."""

from __future__ import annotations

from collections.abc import Sequence

from eagle_tui.protocol import DatasetStatus
from eagle_tui.ui.dataset_order import SORTS, arranged
from eagle_tui.ui.frame import Frame, totals
from eagle_tui.ui.grid import choose_columns
from eagle_tui.ui.widgets.dataset_row import COLUMNS, RowDrawer
from eagle_tui.ui.widgets.table import Cells, Table

_PRIORITY = (
    "name", "state", "done", "percent", "tokens", "rate", "mean", "eta", "p95", "cut", "failed",
    "reasoning", "flight", "finish", "bar", "loop", "no_answer",
)  # fmt: skip
_NARROW_PRIORITY = ("name", "percent", "state", "rate", "tokens", "eta", "done")
_NARROW_WIDTH = 70
_NAME_MOST = 24
_BAR_MOST = 24


class DatasetTable(Table):
    """One row per dataset, a cursor, a total. The cursor's dataset is what keys act on."""

    FOOT = 1

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self.frame: Frame | None = None
        self.sort = SORTS[0]
        self.filter = ""
        self._by_name: dict[str, DatasetStatus] = {}
        self._drawn: dict[str, tuple[tuple[object, ...], Cells]] = {}

    @property
    def rows(self) -> Sequence[DatasetStatus]:
        """The datasets in the order shown."""
        found = self.frame.status.datasets if self.frame else ()
        return arranged(found, self.sort, self.filter)

    def show(self, frame: Frame) -> None:
        self.frame = frame
        rows = self.rows
        names = [row.name for row in rows]
        wanted = _first_at_work(rows) if names else None
        if wanted and (self.selected not in names or self._follows(wanted)):
            self.select(wanted)
        self.fill()

    def keys(self) -> Sequence[str]:
        return list(self._by_name)

    def fill(self) -> None:
        if self.frame is not None:
            self._by_name = {row.name: row for row in self.rows}
            super().fill()

    def header(self, widths: dict[str, int], hidden: int) -> Cells:
        return self._drawer(widths).header(hidden, self.sort.column)

    def row(self, key: str, widths: dict[str, int]) -> Cells:
        row = self._by_name[key]
        drawn_for = (row, widths, self.canvas.palette, self.canvas.glyphs)
        before = self._drawn.get(key)
        # Most datasets stand still; where time is left, its end moves on with the clock.
        if before is None or before[0] != drawn_for or row.eta_s is not None:
            before = self._drawn[key] = drawn_for, self._drawer(widths).dataset(row)
        return before[1]

    def foot(self, widths: dict[str, int]) -> Sequence[Cells]:
        assert self.frame is not None
        status = self.frame.status
        return [self._drawer(widths).total(totals(status.datasets, status.total))]

    def _drawer(self, widths: dict[str, int]) -> RowDrawer:
        assert self.frame is not None
        return RowDrawer(self.canvas, widths, self.frame.now)

    def _follows(self, wanted: str) -> bool:
        """Whether the cursor goes on by itself, because what it stands on is at work no more."""
        states = {row.name: row.state for row in self.rows}
        return (
            not self.chosen
            and states[wanted] == "running"
            and states.get(self.selected or "") != "running"
        )

    def widths(self) -> dict[str, int]:
        width = self.size.width
        longest = max((len(name) for name in self.keys()), default=7)
        narrow = width < _NARROW_WIDTH
        most = 12 if narrow else 15 if width < 100 else _NAME_MOST
        longest = max(longest, 7) + 1
        least = {"name": min(longest, most)}
        chosen = choose_columns(COLUMNS, _NARROW_PRIORITY if narrow else _PRIORITY, width, least)
        spare = max(width - sum(chosen.values()) - len(chosen), 0)
        if "bar" in chosen:
            wider = min(spare, _BAR_MOST - chosen["bar"])
            chosen["bar"] += wider
            _spread(chosen, spare - wider)
        else:
            wider = min(spare, max(longest - chosen["name"], 0))
            chosen["name"] += wider
            _spread(chosen, spare - wider)
        return {column.key: chosen[column.key] for column in COLUMNS if column.key in chosen}


def _spread(widths: dict[str, int], spare: int) -> None:
    """Give cells that are left over to the columns of figures, evenly, as space between them."""
    figures = [column.key for column in COLUMNS if column.right and column.key in widths]
    for index, key in enumerate(figures):
        widths[key] += spare // len(figures) + (index < spare % len(figures))


def _first_at_work(rows: Sequence[DatasetStatus]) -> str:
    return next((row.name for row in rows if row.state == "running"), rows[0].name)
