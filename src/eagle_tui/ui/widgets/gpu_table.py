"""All GPUs as rows of figures, each with its last while as a strip of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagle_tui.protocol import GpuStatus
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.chart import strip
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.grid import Column
from eagle_tui.ui.past import Past
from eagle_tui.ui.widgets.gpu_row import HOT_C, TOO_HOT_C, gpu_texts, short_name
from eagle_tui.ui.widgets.table import Cells, Table, drawn, fitted, titles
from eagle_tui.ui.window import axis

COLUMNS = (
    Column("name", "GPU", 8),
    Column("util", "util", 5, right=True),
    Column("sm", "SM", 4, right=True),
    Column("tensor", "tensor", 6, right=True),
    Column("mem", "memory GiB", 12, right=True),
    Column("bw", "mem bw", 6, right=True),
    Column("limited", "power", 9, right=True),
    Column("temp", "temp", 5, right=True),
    Column("clock", "MHz", 5, right=True),
    Column("note", "", 19),
    Column("strip", "", 16),
)
_PRIORITY = (
    "name",
    "util",
    "mem",
    "temp",
    "limited",
    "strip",
    "note",
    "clock",
    "sm",
    "bw",
    "tensor",
)


@dataclass(frozen=True)
class Heat:
    """A figure that the strips show."""

    figure: str
    title: str
    top: float
    warn: float = 2.0
    error: float = 2.0
    """Shares of `top` from which a cell is drawn in these colours; above one: never."""


HEATS = (
    Heat("util", "utilization", 1.0),
    Heat("mem", "memory", 1.0, 0.97, 0.995),
    Heat("power_w", "power", 1000.0),
    Heat("temp_c", "temperature", 100.0, HOT_C / 100, TOO_HOT_C / 100),
)
"""What the figure key steps through."""


class GpuTable(Table):
    """One row per GPU."""

    def __init__(self, past: Past, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self.past = past
        self.frame: Frame | None = None
        self.heat = HEATS[0]
        self._by_key: dict[str, GpuStatus] = {}
        self._drawn_for: tuple[object, ...] = ()
        self._strips: dict[str, Line] = {}

    def show(self, frame: Frame) -> None:
        self.frame = frame
        self._by_key = {str(gpu.index): gpu for gpu in frame.status.gpus}
        self.fill()

    @property
    def gpu(self) -> GpuStatus | None:
        """The one under the cursor."""
        return self._by_key.get(self.selected or "")

    def keys(self) -> Sequence[str]:
        return list(self._by_key)

    def metrics(self) -> list[str]:
        """What the strips need."""
        return [f"gpu{key}.{self.heat.figure}" for key in self._by_key]

    def widths(self) -> dict[str, int]:
        gpus = list(self._by_key.values())
        longest = max((len(f"{g.index} {short_name(g.name)}") for g in gpus), default=4)
        told = {
            "sm": any(gpu.sm_util is not None for gpu in gpus),
            "tensor": any(gpu.tensor_util is not None for gpu in gpus),
            "bw": any(gpu.mem_bw_util is not None for gpu in gpus),
            "clock": any(gpu.sm_clock is not None for gpu in gpus),
        }
        priority = [key for key in _PRIORITY if told.get(key, True)]
        least = {"name": min(max(longest, 4) + 1, 20)}
        return fitted(COLUMNS, priority, self.size.width, least, "strip")

    def header(self, widths: dict[str, int], hidden: int) -> Cells:
        look = self.canvas.palette
        line = titles(COLUMNS, widths, look.muted, hidden)
        if "strip" in widths and self.frame is not None:
            cells = widths["strip"]
            start, end, _ = self.past.grid(self.canvas.eagle.clock.wall(), cells)
            if "note" in widths:
                title = Pen().cell(f"{self.heat.title} ", widths["note"], look.key, right=True)
                line["note"] = title.segments
            line["strip"] = Pen().add(axis(start, end, cells), look.muted).segments
        return line

    def row(self, key: str, widths: dict[str, int]) -> Cells:
        gpu, look = self._by_key[key], self.canvas.palette
        texts = gpu_texts(gpu, look)
        if texts["note"][0] and "note" not in widths:
            texts["name"] = (texts["name"][0], texts["note"][1])
        line = drawn(COLUMNS, widths, texts)
        if "strip" in widths:
            line["strip"] = self._kept_strip(gpu, widths["strip"])
        return line

    def _kept_strip(self, gpu: GpuStatus, cells: int) -> Line:
        """The strip; drawn again only when the charts move on."""
        state = self.past.state(self.canvas.eagle.clock.wall())
        key = (self.heat, cells, self.canvas.palette, state)
        if key != self._drawn_for:
            self._drawn_for = key
            self._strips.clear()
        name = str(gpu.index)
        if name not in self._strips:
            self._strips[name] = self._strip(gpu, cells)
        return self._strips[name]

    def _strip(self, gpu: GpuStatus, cells: int) -> Line:
        look, heat = self.canvas.palette, self.heat
        now = self.canvas.eagle.clock.wall()
        values = self.past.values(f"gpu{gpu.index}.{heat.figure}", now, cells)
        top = heat.top
        if heat.figure == "power_w" and gpu.power_limit_w:
            top = gpu.power_limit_w
        pen = Pen()
        for text, share in strip(values, top, self.canvas.glyphs.mode):
            style = look.level(share, heat.warn, heat.error) if share is not None else look.track
            pen.add(text, style)
        return pen.segments
