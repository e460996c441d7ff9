"""The dataset table: what was typed by hand every hour, kept up to date by itself."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.containers import Vertical
from textual.message import Message

from eagle_tui import fmt
from eagle_tui.protocol import DatasetStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.frame import Frame, Totals, totals
from eagle_tui.ui.grid import Column, Grid, choose_columns
from eagle_tui.ui.verdict import REASONING_EXPECTED_FROM
from eagle_tui.ui.wrap import safe_line

COLUMNS = (
    Column("name", "dataset", 14),
    Column("state", "state", 9),
    Column("bar", "", 14),
    Column("done", "done/total", 13, right=True),
    Column("percent", "%", 4, right=True),
    Column("tokens", "tokens/cap", 11, right=True),
    Column("rate", "/min", 5, right=True),
    Column("mean", "mean", 5, right=True),
    Column("p95", "P95", 5, right=True),
    Column("cut", "cut", 5, right=True),
    Column("failed", "fail", 5, right=True),
    Column("no_answer", "no answer", 9, right=True),
    Column("loop", "loop", 5, right=True),
    Column("reasoning", "reason", 6, right=True),
    Column("flight", "flight", 7, right=True),
    Column("eta", "left", 10, right=True),
    Column("finish", "done at", 9, right=True),
)
"""From left to right. `cut` are truncated responses; mean and P95 are tokens per response."""
_PRIORITY = (
    "name", "state", "done", "percent", "tokens", "rate", "mean", "eta", "p95", "cut", "failed",
    "reasoning", "flight", "finish", "bar", "loop", "no_answer",
)  # fmt: skip
_NARROW_PRIORITY = ("name", "percent", "state", "rate", "tokens", "eta", "done")
_NARROW_WIDTH = 70
_NAME_MOST = 24
_BAR_MOST = 24


class DatasetTable(Vertical):
    """One row per dataset, a cursor, a total. The cursor's dataset is what keys act on."""

    DEFAULT_CSS = "DatasetTable Grid { height: 1fr; }"

    class Selected(Message):
        """The cursor stands on another dataset."""

        def __init__(self, dataset: str) -> None:
            self.dataset = dataset
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        self._grid = Grid(COLUMNS)
        super().__init__(self._grid, id=id)
        self.frame: Frame | None = None
        self.selected: str | None = None
        self._chosen = False
        """Whether the operator put the cursor where it stands; until then it goes with the work."""
        self._offset = 0
        self._shown_room = 0

    @property
    def rows(self) -> tuple[DatasetStatus, ...]:
        return self.frame.status.datasets if self.frame else ()

    def show(self, frame: Frame) -> None:
        self.frame = frame
        names = [row.name for row in self.rows]
        wanted = _first_at_work(self.rows) if names else None
        if wanted and (self.selected not in names or self._follows(wanted)):
            self._select(wanted)
        self._fill()

    def move(self, by: int) -> None:
        """Move the cursor by rows, stopping at the ends."""
        names = [row.name for row in self.rows]
        if self.selected not in names:
            return
        index = min(max(names.index(self.selected) + by, 0), len(names) - 1)
        self._chosen = True
        if names[index] != self.selected:
            self._select(names[index])
            self._fill()

    def on_resize(self, _event: events.Resize) -> None:
        self._fill()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.move(1)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.move(-1)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        index = (offset.y - 1 + self._offset) if offset is not None else -1
        if 0 <= index < len(self.rows) and offset is not None and 1 <= offset.y <= self._room():
            self._chosen = True
            self._select(self.rows[index].name)
            self._fill()

    def _follows(self, wanted: str) -> bool:
        """Whether the cursor goes on by itself, because what it stands on is at work no more."""
        states = {row.name: row.state for row in self.rows}
        return (
            not self._chosen
            and states[wanted] == "running"
            and states.get(self.selected or "") != "running"
        )

    def _select(self, name: str) -> None:
        self.selected = name
        self.post_message(self.Selected(name))

    def _room(self) -> int:
        """Rows between the header and the total."""
        return max(self.size.height - 2, 1)

    def _fill(self) -> None:
        rows = self.rows
        if self.size.width <= 0 or self.frame is None:
            return
        widths = self._widths(rows)
        grid = self._grid
        grid.show_columns(widths)
        names = [row.name for row in rows]
        cursor = names.index(self.selected) if self.selected in names else 0
        room = self._room()
        if room != self._shown_room:
            self._shown_room, self._offset = room, 0
        self._offset = min(max(self._offset, cursor - room + 1), cursor)
        self._offset = min(self._offset, max(len(rows) - room, 0))
        shown = rows[self._offset : self._offset + room]
        drawer = RowDrawer(grid.canvas, widths, self.frame.now)
        lines = [drawer.header(len(rows) - len(shown))]
        lines += [drawer.dataset(row) for row in shown]
        lines.append(drawer.total(totals(rows, self.frame.status.total)))
        grid.show_cells(
            {key: [line[key] for line in lines] for key in widths},
            cursor=cursor - self._offset + 1 if rows else None,
        )

    def _widths(self, rows: tuple[DatasetStatus, ...]) -> dict[str, int]:
        width = self.size.width
        longest = max((len(row.name) for row in rows), default=7)
        narrow = width < _NARROW_WIDTH
        most = 12 if narrow else 15 if width < 100 else _NAME_MOST
        longest = max(longest, 7) + 1
        least = {"name": min(longest, most)}
        chosen = choose_columns(COLUMNS, _NARROW_PRIORITY if narrow else _PRIORITY, width, least)
        chosen = chosen or {"name": max(width - 1, 1)}
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


class RowDrawer:
    """Draws the cells of a row, in the widths of the moment."""

    def __init__(self, canvas: Canvas, widths: dict[str, int], now: float) -> None:
        self.look, self.glyphs = canvas.palette, canvas.glyphs
        self.widths, self.now = widths, now
        self.right = {column.key: column.right for column in COLUMNS}

    def header(self, hidden: int) -> dict[str, Line]:
        titles = {column.key: column.title for column in COLUMNS}
        titles["name"] = f" {titles['name']}" + (f" (+{hidden})" if hidden else "")
        return {key: self._cell(key, titles[key], self.look.muted) for key in self.widths}

    def dataset(self, row: DatasetStatus) -> dict[str, Line]:
        look = self.look
        native = row.kind == "native"
        quiet = row.state in ("pending", "skipped") or native
        plain = look.muted if quiet else look.text
        share = fmt.share(row.done, row.prompts)
        state = "ready" if native and row.state == "done" else row.state
        glyph = self.glyphs.state(row.state)
        no_reasoning = row.reasoning_share == 0 and row.done >= REASONING_EXPECTED_FROM
        flight = fmt.exact(row.in_flight)
        if row.concurrency is not None:
            flight = f"{flight}/{row.concurrency}"
        texts: dict[str, tuple[str, Style]] = {
            "name": (f" {safe_line(row.name)}", plain if quiet else look.strong),
            "state": (f"{glyph} {state}", look.muted if native else look.state(row.state)),
            "done": (fmt.progress(row.done, row.prompts), plain),
            "percent": (fmt.percent(share), look.muted if quiet else look.strong),
            "tokens": (_tokens(row.tokens, row.cap_tokens, row.cap_samples), plain),
            "rate": (fmt.rate(row.rate_per_min), plain),
            "mean": (fmt.count(row.tokens_mean), plain),
            "p95": (fmt.count(row.tokens_p95), plain),
            "cut": (_few(row.truncated), self._bad(row.truncated, row.done, 0.05, look.warn)),
            "failed": (_few(row.failed), self._bad(row.failed, row.done, 0.0, look.error)),
            "no_answer": (_few(row.no_answer), self._bad(row.no_answer, row.done, 0.02, look.warn)),
            "loop": (_few(row.loop), self._bad(row.loop, row.done, 0.02, look.warn)),
            "reasoning": (
                "none!" if no_reasoning else fmt.percent(row.reasoning_share),
                look.error if no_reasoning else plain,
            ),
            "flight": (flight if row.in_flight or row.state == "running" else "", plain),
            "eta": (fmt.eta(row.eta_s) if row.eta_s else "", plain),
            "finish": (_finish(row.eta_s, self.now), look.muted),
        }
        line = {key: self._cell(key, *texts[key]) for key in self.widths if key != "bar"}
        if "bar" in self.widths:
            style = look.muted if native else look.state(row.state)
            line["bar"] = self._bar(share, style)
        return line

    def total(self, sum_: Totals) -> dict[str, Line]:
        look = self.look
        share = fmt.share(sum_.done, sum_.prompts)
        texts = {
            "name": " total",
            "state": "",
            "done": fmt.progress(sum_.done, sum_.prompts),
            "percent": fmt.percent(share),
            "tokens": _tokens(sum_.tokens, sum_.cap_tokens, sum_.cap_samples),
            "rate": fmt.rate(sum_.rate_per_min),
            "mean": fmt.count(sum_.mean),
            "p95": fmt.count(sum_.p95) if sum_.p95 is not None else "",
            "cut": _few(sum_.truncated),
            "failed": _few(sum_.failed),
            "no_answer": _few(sum_.no_answer),
            "loop": _few(sum_.loop),
            "reasoning": fmt.percent(sum_.reasoning_share),
            "flight": fmt.exact(sum_.in_flight),
            "eta": fmt.eta(sum_.eta_s) if sum_.eta_s else "",
            "finish": _finish(sum_.eta_s, self.now),
        }
        line = {key: self._cell(key, texts[key], look.key) for key in self.widths if key != "bar"}
        if "bar" in self.widths:
            line["bar"] = self._bar(share, look.key)
        return line

    def _bar(self, share: float | None, style: Style) -> Line:
        filled, track = bar(share, self.widths["bar"], self.glyphs)
        return [Segment(filled, style), Segment(track, self.look.track)]

    def _bad(self, count: int, done: int, allowed: float, style: Style) -> Style:
        """`style` where a bad finish is more than `allowed` of the finished."""
        if count == 0:
            return self.look.muted
        return style if count > allowed * done else self.look.text

    def _cell(self, key: str, text: str, style: Style) -> Line:
        return Pen().cell(text, self.widths[key], style, right=self.right[key]).segments


def _spread(widths: dict[str, int], spare: int) -> None:
    """Give cells that are left over to the columns of figures, evenly, as space between them."""
    figures = [column.key for column in COLUMNS if column.right and column.key in widths]
    for index, key in enumerate(figures):
        widths[key] += spare // len(figures) + (index < spare % len(figures))


def _first_at_work(rows: tuple[DatasetStatus, ...]) -> str:
    return next((row.name for row in rows if row.state == "running"), rows[0].name)


def _tokens(tokens: int, cap_tokens: int | None, cap_samples: int | None) -> str:
    if cap_tokens is not None:
        return f"{fmt.count(tokens)}/{fmt.count(cap_tokens)}"
    if cap_samples is not None:
        return f"{fmt.count(tokens)} ≤{fmt.count(cap_samples)}"
    return fmt.count(tokens)


def _few(count: int) -> str:
    return fmt.count(count) if count else "·"


def _finish(eta: tuple[float, float, float] | None, now: float) -> str:
    return fmt.stamp(now + eta[1], now) if eta and fmt.known(eta[1]) else ""
