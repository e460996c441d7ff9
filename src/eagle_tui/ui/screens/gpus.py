"""The GPUs screen: a row and a strip over time per GPU, and one GPU in detail; or the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from eagle_tui import fmt
from eagle_tui.protocol import GpuStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.screens.base import keys_of
from eagle_tui.ui.screens.charted import TableScreen
from eagle_tui.ui.widgets.gpu_table import HEATS, GpuTable
from eagle_tui.ui.widgets.gpus import HostLine
from eagle_tui.ui.widgets.timechart import TimeChart
from eagle_tui.ui.wrap import safe_line

WIDE = 150
"""Columns from which there are four charts; below it there are two."""
LOW = 24
"""Rows below which the GPU in detail is its charts alone."""


def watts(value: float | None) -> str:
    """Power on a scale."""
    return f"{value:.0f}W" if value is not None and fmt.known(value) else fmt.NONE


def degrees(value: float | None) -> str:
    """Temperature on a scale."""
    return f"{value:.0f}°C" if value is not None and fmt.known(value) else fmt.NONE


class GpuFacts(Canvas):
    """What is known of one GPU beside its row: identity, links, errors, energy, processes."""

    gpu: GpuStatus | None = None

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self.gpu is None:
            return
        look = self.palette
        pen = Pen()
        lines: list[Line] = []
        for label, value, bad in gpu_facts(self.gpu):
            if pen.segments and pen.width + len(label) + len(value) + 4 > width:
                lines.append(pen.segments)
                pen = Pen()
            pen.add(f" {label} ", look.muted).add(value, look.error if bad else look.text).add("  ")
        yield from [*lines, pen.segments][:height]


def gpu_facts(gpu: GpuStatus) -> list[tuple[str, str, bool]]:
    """(label, value, whether it is bad news) of all that is known of a GPU."""
    found: list[tuple[str, str | None, bool]] = [
        ("GPU", f"{gpu.index} {safe_line(gpu.name)}", False),
        ("state", gpu.state, gpu.state != "ok"),
        ("throttled by", gpu.throttle or None, True),
        ("clock", _of(gpu.sm_clock, gpu.sm_clock_max, " MHz"), False),
        ("power limit", watts(gpu.power_limit_w) if gpu.power_limit_w else None, False),
        ("memory temp", degrees(gpu.mem_temp_c) if gpu.mem_temp_c is not None else None, False),
        ("PCIe", gpu.pcie, False),
        ("PCIe out/in", _per_s(gpu.pcie_tx, gpu.pcie_rx), False),
        ("NVLink out/in", _per_s(gpu.nvlink_tx, gpu.nvlink_rx), False),
        ("energy", f"{gpu.energy_j / 3.6e6:.2f} kWh" if gpu.energy_j is not None else None, False),
        ("memory errors", fmt.exact(gpu.ecc_errors) if gpu.ecc_errors is not None else None,
         bool(gpu.ecc_errors)),
        ("Xid", str(gpu.xid) if gpu.xid is not None else None, True),
        ("MIG", gpu.mig, False),
        ("uuid", gpu.uuid, False),
    ]  # fmt: skip
    processes = gpu.processes or ()
    owners = gpu.owners or ("process",) * len(processes)
    for owner, (pid, used) in zip(owners, processes, strict=False):
        size = f" {fmt.size(used)}" if used is not None else ""
        found.append((safe_line(owner), f"pid {pid}{size}", False))
    return [(label, safe_line(value), bad) for label, value, bad in found if value]


def _of(now: int | None, most: int | None, unit: str) -> str | None:
    if now is None:
        return None
    return f"{now}/{most}{unit}" if most is not None else f"{now}{unit}"


def _per_s(out: float | None, into: float | None) -> str | None:
    if out is None and into is None:
        return None
    return f"{fmt.size(out)}/s {fmt.size(into)}/s"


class GpusScreen(TableScreen):
    """All GPUs, and the selected one."""

    NAME = "gpus"
    BINDINGS: ClassVar[list[BindingType]] = keys_of(NAME)
    table: GpuTable

    def body(self) -> ComposeResult:
        self.table, self.host = GpuTable(self.eagle.past, id="table"), HostLine(id="host")
        self.facts = GpuFacts(id="facts")
        self.charts = {
            "util": TimeChart(top=1.0, label=fmt.percent, id="util"),
            "mem": TimeChart(top=1.0, label=fmt.percent, tells=False, id="mem"),
            "power_w": TimeChart(label=watts, tells=False, id="power"),
            "temp_c": TimeChart(top=100.0, label=degrees, tells=False, id="temp"),
        }
        yield self.table
        yield self.host
        yield self.facts
        yield Horizontal(*self.charts.values(), id="charts")

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")
        self.set_class(event.size.height < LOW, "-low")

    def show(self, frame: Frame) -> None:
        gpus = frame.status.gpus
        self.set_class(not gpus, "-none")
        self.host.frame = frame
        self.host.redraw()
        rows = len(gpus) + 1
        if self.table.styles.height is None or self.table.styles.height.value != rows:
            self.table.styles.height = rows
            self.table.styles.max_height = "60%"
        self.table.show(frame)
        self._name_charts(bool(gpus))
        self.redraw_charts()

    def _name_charts(self, gpus: bool) -> None:
        """The charts of the selected GPU, or where there is none, of the host."""
        gpu = self.table.gpu
        titles = {
            "util": "utilization",
            "mem": "memory",
            "power_w": "power",
            "temp_c": "temperature",
        }
        for figure, chart in self.charts.items():
            metric, title = "", titles[figure]
            if gpus and gpu is not None:
                metric, title = f"gpu{gpu.index}.{figure}", f"GPU {gpu.index} {title}"
            elif not gpus and figure in ("util", "mem"):
                metric = "cpu" if figure == "util" else "mem"
                title = "CPU" if figure == "util" else "memory of the machine"
            chart.metric = metric
            if chart.border_title != title:
                chart.border_title = title
        self.facts.gpu = gpu
        self.facts.redraw()

    def metrics(self) -> Sequence[str]:
        charted = super().metrics()
        return [*charted, *(m for m in self.table.metrics() if m not in charted)]

    def redraw_charts(self) -> None:
        super().redraw_charts()
        self.table.fill()

    def do_figure(self) -> None:
        """The next figure in the strips."""
        table = self.table
        table.heat = HEATS[(HEATS.index(table.heat) + 1) % len(HEATS)]
        self.fetch_past()
        table.fill()
        self.notify(f"The strips show {table.heat.title}.", timeout=2, markup=False)
