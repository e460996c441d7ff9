"""A screen with charts: one window of time for all, moved by keys, and the marks drawn on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import on

from eagle_tui.client_api import ClientError
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.screens.base import RunScreen
from eagle_tui.ui.widgets.table import Table
from eagle_tui.ui.widgets.timechart import TimeChart
from eagle_tui.ui.window import Window
from eagle_tui.ui.work import begin


class ChartedScreen(RunScreen):
    """A subclass says which metrics it charts (`metrics`) and how they are drawn again
    (`redraw_charts`)."""

    def __init__(self) -> None:
        super().__init__()
        self._fetching = False

    def metrics(self) -> Iterable[str]:
        """Names of the metrics that are in sight now (docs/status.md)."""
        raise NotImplementedError

    def redraw_charts(self) -> None:
        """Draw the charts again."""
        raise NotImplementedError

    def show_frame(self, frame: Frame) -> None:
        super().show_frame(frame)
        if not frame.stale:
            self.fetch_past()

    def fetch_past(self) -> None:
        """Ask for the history that is lacking; once at a time."""
        if not self._fetching and self.eagle.past.lacks(self.metrics()):
            self._fetching = True
            begin(self, self._load_past, group="past")

    async def _load_past(self) -> None:
        app = self.eagle
        try:
            while app.past.lacks(names := list(self.metrics())):
                await app.past.load(app.client, names, app.clock.wall())
        except ClientError:
            return  # the poll meets it, too; the next snapshot asks again
        finally:
            self._fetching = False
        if self.is_attached:
            self.redraw_charts()

    def _change(self, window: Window, otherwise: str) -> None:
        if not self.eagle.past.change(window):
            self.notify(otherwise, timeout=2, markup=False)
            return
        self.fetch_past()
        self.redraw_charts()

    def _zoom(self, by: int, otherwise: str) -> None:
        window = self.eagle.past.window
        self._change(window.zoomed(by, self.eagle.clock.wall()), otherwise)

    def do_zoom_in(self) -> None:
        self._zoom(-1, "This is the shortest time that charts show.")

    def do_zoom_out(self) -> None:
        self._zoom(1, "This is the longest time that charts show.")

    def _scroll(self, steps: int, otherwise: str) -> None:
        frame = self.eagle.frame
        first = frame.status.run.started if frame else None
        window = self.eagle.past.window
        self._change(window.scrolled(steps, self.eagle.clock.wall(), first), otherwise)

    def do_earlier(self) -> None:
        self._scroll(-1, "The run began here.")

    def do_later(self) -> None:
        self._scroll(1, "The charts go along with now.")

    def do_now(self) -> None:
        self._change(self.eagle.past.window.to_now(), "The charts go along with now.")

    def do_mark(self) -> None:
        """The next older mark of the window; its text stands under the chart."""
        past, now = self.eagle.past, self.eagle.clock.wall()
        if not past.marks_shown(now):
            self.notify("There are no marks in this window of time.", timeout=2, markup=False)
        past.choose_mark(now)
        self.redraw_charts()


class TableScreen(ChartedScreen):
    """A table that the arrow keys go through, and charts of what its cursor stands on."""

    table: Table
    charts: dict[str, TimeChart]
    """By the figure that each shows."""

    def metrics(self) -> Sequence[str]:
        return [chart.metric for chart in self.charts.values() if chart.metric and chart.display]

    def redraw_charts(self) -> None:
        for chart in self.charts.values():
            chart.redraw()

    @on(Table.Selected)
    def _selected(self) -> None:
        if self.eagle.frame is not None:
            self.show(self.eagle.frame)
            self.fetch_past()

    def move(self, by: int) -> None:
        self.table.move(by)

    def page(self, by: int) -> None:
        self.table.page(by)

    def jump(self, to_end: bool) -> None:
        self.table.jump(to_end)
