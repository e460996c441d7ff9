"""The server screen: live load, how a start goes, launches with settings, outcome and effect."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from eagle_tui import fmt
from eagle_tui.protocol import Launch
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.screens.base import keys_of
from eagle_tui.ui.screens.charted import TableScreen
from eagle_tui.ui.widgets.server_table import LaunchNews, LaunchTable, ServerNews, ServerTable
from eagle_tui.ui.widgets.timechart import TimeChart

WIDE = 120
"""Columns from which three charts stand side by side; below it there are two."""
LAUNCHES_ASKED = 200
MOST_SERVERS = 8
"""Rows of servers that are in sight at once."""


class ServerScreen(TableScreen):
    """All servers: the arrow keys go through the launches, Enter through the servers."""

    NAME = "server"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    LOAD_EVERY_S = 5.0
    table: LaunchTable

    def __init__(self) -> None:
        super().__init__()
        self.servers, self.news = ServerTable(id="servers"), ServerNews(id="news")
        self.charts = {
            "tok_s": TimeChart(label=fmt.rate, id="tok_s"),
            "running": TimeChart(label=fmt.count, tells=False, id="running"),
            "kv_usage": TimeChart(top=1.0, label=fmt.percent, tells=False, id="kv"),
        }
        self.table, self.launch = LaunchTable(id="launches"), LaunchNews(id="launch")
        self._told: list[Launch] = []

    def body(self) -> ComposeResult:
        yield self.servers
        yield self.news
        yield Horizontal(*self.charts.values(), id="charts")
        yield self.table
        yield self.launch

    def on_mount(self) -> None:
        for figure, title in (
            ("tok_s", "tokens/s"), ("running", "running requests"), ("kv_usage", "KV cache in use"),
        ):  # fmt: skip
            self.charts[figure].border_title = title
        self.table.border_title = "launches"

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")

    # What arrives

    def show(self, frame: Frame) -> None:
        rows = min(max(len(frame.status.servers), 1), MOST_SERVERS) + 1
        height = self.servers.styles.height
        if height is None or height.value != rows:
            self.servers.styles.height = rows
        self.servers.show(frame)
        server = self.servers.server
        self.news.server = server
        lines = len(self.news.lines(self.size.width))
        if self.news.display != (lines > 0):
            self.news.display = lines > 0
        if lines and (self.news.styles.height is None or self.news.styles.height.value != lines):
            self.news.styles.height = lines
        self.news.redraw()
        for figure, chart in self.charts.items():
            chart.metric = f"server.{server.name}.{figure}" if server else ""
            chart.redraw()
        self._show_launches(frame.now)

    def _show_launches(self, now: float) -> None:
        self.table.show(self._told, now)
        self.launch.launch = self.table.launch
        self.launch.redraw()

    async def load(self) -> None:
        """The launches of all servers."""
        self._told = await self.eagle.client.launches(None, LAUNCHES_ASKED)
        self._show_launches(self.eagle.clock.wall())

    # What the operator does

    def do_next_server(self) -> None:
        """The next server under the cursor, after the last one the first."""
        keys = list(self.servers.keys())
        if len(keys) < 2:
            self.notify("There is no other server.", timeout=2, markup=False)
            return
        here = keys.index(self.servers.selected) if self.servers.selected in keys else -1
        self.servers.select(keys[(here + 1) % len(keys)])
        self.servers.fill()
