"""The GPU panel: a row per GPU, or one line for all, or the host's own bars where there is none."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from rich.style import Style
from textual import events
from textual.containers import Vertical

from eagle_tui import fmt
from eagle_tui.protocol import GpuStatus, HostStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.grid import Column, Grid, choose_columns, rows_of
from eagle_tui.ui.widgets.gpu_row import gpu_texts, heat_style, short_name
from eagle_tui.ui.widgets.table import drawn

DISK_TIGHT = 50 * 2**30

_COLUMNS = (
    Column("name", "GPU", 8),
    Column("bar", "", 12),
    Column("util", "util", 5, right=True),
    Column("mem", "memory GiB", 12, right=True),
    Column("power", "power", 5, right=True),
    Column("temp", "temp", 4, right=True),
    Column("note", "", 18),
)
_PRIORITY = ("name", "util", "mem", "power", "temp", "note", "bar")
_BAR_MOST = 20
"""A longer bar says no more and costs its bytes each second."""


class HostLine(Canvas):
    """CPU, memory and disk of the host; all GPUs in one line where there is no room for rows."""

    frame: Frame | None = None

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self.frame is None:
            return
        status = self.frame.status
        if status.gpus:
            yield self._gpu_summary(status.gpus, status.host, width)
            return
        host = status.host
        note = host.gpu_note or "no GPU on this machine"
        if height == 1:
            pen = self._host(Pen().add(" "), host, 6)
            if pen.width + len(note) + 3 <= width:
                pen.add(f"   {note}", self.palette.muted)
            yield pen.segments
            return
        yield Pen().cell(f" {note}", width, self.palette.muted).segments
        yield ()
        yield from self._host_rows(host, width)

    def _host_rows(self, host: HostStatus, width: int) -> Iterable[Line]:
        memory = f"{fmt.gib(host.mem_used)} / {fmt.gib(host.mem_total)} GiB"
        for label, share, text in (("CPU", host.cpu, ""), ("memory", host.mem, memory)):
            filled, track = bar(share, max(min(width - 38, 30), 6), self.glyphs)
            pen = Pen().cell(f" {label}", 9, self.palette.muted)
            pen.add(filled, self.palette.level(share, 0.85, 0.97)).add(track, self.palette.track)
            pen.cell(fmt.percent(share), 6, self.palette.strong, right=True)
            yield pen.add(f"  {text}", self.palette.muted).segments
        disk = Pen().cell(" disk", 9, self.palette.muted)
        disk.add(f"{fmt.size(host.disk_free)} free", self._disk_style(host))
        if host.disk_full_at is not None and self.frame is not None:
            when = fmt.stamp(host.disk_full_at, self.frame.now)
            disk.add(f"  full {when} at this rate", self.palette.warn)
        yield disk.segments

    def _host(self, pen: Pen, host: HostStatus, bar_width: int) -> Pen:
        for label, share in (("CPU", host.cpu), ("mem", host.mem)):
            filled, track = bar(share, bar_width, self.glyphs)
            pen.add(f"{label} ", self.palette.muted)
            pen.add(filled, self.palette.level(share, 0.85, 0.97)).add(track, self.palette.track)
            pen.cell(fmt.percent(share), 5, right=True).add("  ")
        pen.add("disk ", self.palette.muted)
        return pen.add(f"{fmt.size(host.disk_free)} free", self._disk_style(host))

    def _gpu_summary(self, gpus: tuple[GpuStatus, ...], host: HostStatus, width: int) -> Line:
        util = _mean(gpu.util for gpu in gpus)
        pen = Pen().add(f" {len(gpus)} GPU ", self.palette.muted)
        filled, track = bar(util, 8, self.glyphs)
        pen.add(filled, self.palette.ok).add(track, self.palette.track)
        pen.cell(fmt.percent(util), 5, self.palette.strong, right=True)
        used, total = (_sum(getattr(gpu, key) for gpu in gpus) for key in ("mem_used", "mem_total"))
        if total:
            pen.add("  mem ", self.palette.muted).add(fmt.percent(fmt.share(used, total)))
        power = _sum(gpu.power_w for gpu in gpus)
        if power is not None:
            pen.add(f"  {fmt.count(power)}W")
        hottest = max((gpu.temp_c for gpu in gpus if gpu.temp_c is not None), default=None)
        if hottest is not None:
            pen.add(f"  {hottest:.0f}°C", heat_style(self.palette.text, self.palette, hottest))
        lost = [gpu for gpu in gpus if gpu.state != "ok"]
        held = [gpu for gpu in gpus if gpu.throttle]
        if lost:
            pen.add(f"  GPU {lost[0].index} {lost[0].state}", self.palette.error)
        elif held:
            text = f"  {len(held)} throttled: {held[0].throttle}"
            pen.upto(text, width - pen.width, self.palette.warn)
        tail = Pen().add("cpu ", self.palette.muted).add(fmt.percent(host.cpu))
        tail.add("  disk ", self.palette.muted)
        tail.add(f"{fmt.size(host.disk_free)} ", self._disk_style(host))
        return pen.right(tail, width).segments

    def _disk_style(self, host: HostStatus) -> Style:
        tight = host.disk_free is not None and host.disk_free < DISK_TIGHT
        return self.palette.warn if tight or host.disk_full_at else self.palette.text


class GpuPanel(Vertical):
    """Rows per GPU where they fit, else the one line."""

    DEFAULT_CSS = """
    GpuPanel HostLine { height: 1fr; }
    GpuPanel Grid { height: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        self._line, self._grid = HostLine(), Grid(_COLUMNS)
        self.frame: Frame | None = None
        self._shape: tuple[bool, bool] | None = None
        """Whether rows are shown, and whether there are GPUs."""
        super().__init__(self._line, self._grid, id=id)

    def show(self, frame: Frame) -> None:
        self.frame = frame
        line, grid = self._line, self._grid
        rows = bool(frame.status.gpus) and rows_of(self) > 1
        shape = (rows, bool(frame.status.gpus))
        if shape != self._shape:  # setting a title or a display repaints even when it is the same
            self._shape = shape
            line.display, grid.display = not rows, rows
            self.border_title = "GPUs" if shape[1] else "host"
        if rows:
            self._fill(grid, frame.status.gpus)
        else:
            line.frame = frame
            line.redraw()

    def on_resize(self, _event: events.Resize) -> None:
        if self.frame is not None:
            self.show(self.frame)

    def _fill(self, grid: Grid, gpus: tuple[GpuStatus, ...]) -> None:
        longest = max(len(f"{gpu.index} {short_name(gpu.name)}") for gpu in gpus)
        least = {"name": min(max(longest, 4) + 1, 20)}
        widths = choose_columns(_COLUMNS, _PRIORITY, self.size.width, least)
        spare = self.size.width - sum(widths.values()) - len(widths)
        if "bar" in widths:
            wider = min(spare, _BAR_MOST - widths["bar"])
            widths["bar"] += wider
            spare -= wider
        if "note" in widths:
            widths["note"] += spare
        grid.show_columns(widths)
        look = self._line.palette
        cells: dict[str, list[Line]] = {
            column.key: [_header(column, widths[column.key], look.muted)]
            for column in _COLUMNS
            if column.key in widths
        }
        room = rows_of(self) - 1
        for gpu in gpus[:room]:
            for key, line in self._row(gpu, widths).items():
                cells[key].append(line)
        if len(gpus) > room:
            more = Pen().cell(f" +{len(gpus) - room + 1} more", widths["name"], look.muted)
            cells["name"][-1] = more.segments
        grid.show_cells(cells)

    def _row(self, gpu: GpuStatus, widths: dict[str, int]) -> dict[str, Line]:
        look = self._line.palette
        texts = gpu_texts(gpu, look)
        if texts["note"][0] and "note" not in widths:
            texts["name"] = (texts["name"][0], texts["note"][1])
        row = drawn(_COLUMNS, widths, texts)
        if "bar" in widths:
            filled, track = bar(gpu.util, widths["bar"], self._line.glyphs)
            row["bar"] = Pen().add(filled, look.ok).add(track, look.track).segments
        return row


def _header(column: Column, width: int, style: Style) -> Line:
    title = f" {column.title}" if column.key == "name" else column.title
    return Pen().cell(title, width, style, right=column.right).segments


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
