"""The throughput panel: figures of now, a line per server that needs one, tokens/s over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.style import Style
from textual.containers import Horizontal, Vertical

from eagle_tui import fmt
from eagle_tui.protocol import PhaseStatus, ServerStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.frame import LABEL_AGE_S, Frame
from eagle_tui.ui.widgets.timechart import TimeChart

KV_TIGHT, KV_FULL = 0.90, 0.97
CHARTED = {"train": "loss", "extract": "tok_s", "bench": "tok_s"}
"""What the chart shows of a phase."""
SHARES = frozenset({"data_wait", "write_wait", "mfu"})
_SERVING = ("ready", "attached")


class Figure(Canvas):
    """One value with its label: below it where there are two rows, else before it."""

    def __init__(self, key: str, label: str, width: int) -> None:
        super().__init__()
        self.key = key
        self.label = label
        self.value = fmt.NONE
        self.style: Style | None = None
        self.styles.width = self.cells = width

    def show(self, value: str, style: Style) -> None:
        self.value, self.style = value, style
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if height >= 2:
            yield Pen().add(" ").cell(self.value, width - 1, self.style).segments
            yield Pen().add(" ").cell(self.label, width - 1, self.palette.muted).segments
        else:
            label = Pen().add(f" {self.label} ", self.palette.muted)
            yield label.add(self.value, self.style).segments


_FIGURES = (
    ("tok_s", "tok/s", 12),
    ("running", "run", 10),
    ("queued", "queued", 13),
    ("kv", "KV", 8),
    ("hit", "hit", 9),
    ("retracted", "retract", 14),
    ("accept", "accept", 12),
)


_FIGURE_PRIORITY = ("tok_s", "running", "queued", "kv", "accept", "retracted", "hit")


class PhaseFigures(Canvas):
    """What a phase that needs no server measures of itself: as many figures as fit."""

    values: dict[str, float | None] = {}  # noqa: RUF012 - replaced whole, never changed

    def draw(self, width: int, height: int) -> Iterable[Line]:
        names, numbers = Pen(), Pen()
        for name, value in self.values.items():
            label = name.replace("_", " ")
            cells = max(len(label), 7) + 2
            if names.width + cells > width:
                break
            names.add(" ").cell(label, cells - 1, self.palette.muted)
            numbers.add(" ").cell(phase_value(name, value), cells - 1, self.palette.strong)
        yield numbers.segments
        if height >= 2:
            yield names.segments


class ServerLines(Canvas):
    """A line per server: its state in words when it does not serve, else its own figures."""

    servers: tuple[ServerStatus, ...] = ()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        for server in self.servers[:height]:
            pen = Pen().add(" ")
            style = self.palette.state(server.state)
            pen.add(f"{self.glyphs.state(server.state)} ", style)
            pen.add(f"{server.name}  ", self.palette.text)
            pen.add(server.state, style)
            if server.reason:
                pen.add("  ").cell(server.reason, width - pen.width - 2, self.palette.muted)
            elif server.age_s is not None and server.age_s >= LABEL_AGE_S:
                pen.add(f"  figures are {fmt.age(server.age_s)} old", self.palette.warn)
            elif server.state in _SERVING:
                pen.add(
                    f"  {fmt.rate(server.tok_s)} tok/s  run {fmt.exact(server.running)}"
                    f"  queued {fmt.exact(server.queued)}  KV {fmt.percent(server.kv_usage)}",
                    self.palette.muted,
                )
            yield pen.segments


class ThroughputPanel(Vertical):
    """All servers together."""

    DEFAULT_CSS = """
    ThroughputPanel #figures, ThroughputPanel #phase-figures { height: 1; }
    ThroughputPanel Figure { height: 1fr; }
    ThroughputPanel.-tall #figures, ThroughputPanel.-tall #phase-figures { height: 2; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        self._values = {figure[0]: Figure(*figure) for figure in _FIGURES}
        self._lines, self.chart = ServerLines(), TimeChart("tok_s")
        self._server_rows: int | None = None
        self._accepts = False
        """Whether a server speculates, so that there is an accept length."""
        self._phase = PhaseFigures(id="phase-figures")
        self._phase.display = False
        self._figure_row = Horizontal(*self._values.values(), id="figures")
        super().__init__(self._figure_row, self._phase, self._lines, self.chart, id=id)

    def show(self, frame: Frame) -> None:
        servers = frame.status.servers
        lines = self._lines
        self._figures(servers, total(server.tok_s for server in servers))
        self._choose_subject(frame)
        rows = server_rows(servers)
        lines.servers = servers
        if rows != self._server_rows:
            self._server_rows = rows
            lines.display = rows > 0
            lines.styles.height = rows
        lines.redraw()
        self.chart.redraw()

    def _choose_subject(self, frame: Frame) -> None:
        """The servers, or a phase that runs without one and measures itself."""
        phase = measured_phase(frame.status.phases)
        title, metric = "throughput, tokens/s", "tok_s"
        if phase is not None:
            charted = CHARTED.get(phase.name, "tok_s")
            title = f"{phase.name}, {charted.replace('_', ' ')}"
            metric = f"{phase.name}.{charted}"
            self._phase.values = phase.figures
            self._phase.redraw()
        if self.border_title != title:
            self.border_title = title
            self._phase.display = phase is not None
            self._figure_row.display = phase is None
        self.chart.metric = metric

    def _figures(self, servers: Sequence[ServerStatus], rate: float | None) -> None:
        look = self.chart.palette
        kv = peak(server.kv_usage for server in servers)
        accept = mean(server.accept_length for server in servers)
        retracted = total(server.retractions for server in servers)
        kv_style = look.strong if kv is None or kv < KV_TIGHT else look.warn
        values = {
            "tok_s": (fmt.rate(rate), look.accent + look.strong),
            "running": (fmt.count(total(s.running for s in servers)), look.strong),
            "queued": (fmt.count(total(s.queued for s in servers)), look.strong),
            "kv": (fmt.percent(kv), look.error if kv is not None and kv >= KV_FULL else kv_style),
            "hit": (fmt.percent(mean(s.cache_hit for s in servers)), look.strong),
            "retracted": (fmt.count(retracted), look.warn if retracted else look.strong),
            "accept": (fmt.decimal(accept), look.strong),
        }
        for key, (value, style) in values.items():
            self._values[key].show(value, look.muted if value == fmt.NONE else style)
        self._accepts = accept is not None
        self._choose()

    def on_resize(self) -> None:
        self._choose()

    def _choose(self) -> None:
        """Show the figures that fit, the more important first; half a figure would be a lie."""
        room = self.size.width
        for key in _FIGURE_PRIORITY:
            figure = self._values[key]
            fits = figure.cells <= room and (key != "accept" or self._accepts)
            room -= figure.cells if fits else 0
            if figure.display != fits:
                figure.display = fits


def measured_phase(phases: Sequence[PhaseStatus]) -> PhaseStatus | None:
    """The running phase that has figures of its own, unless the servers' figures say it all."""
    for phase in phases:
        if phase.state == "running" and phase.figures and phase.name != "generate":
            return phase
    return None


def phase_value(name: str, value: float | None) -> str:
    """A phase's figure as its name asks for: shares in per cent, small numbers with decimals."""
    if name in SHARES:
        return fmt.percent(value)
    if value is not None and name == "lr":
        return f"{value:.1e}"
    if value is not None and abs(value) < 100:
        return fmt.decimal(value)
    return fmt.count(value)


def server_rows(servers: Sequence[ServerStatus]) -> int:
    """How many server lines are worth their room: none for one that serves and answers."""
    if len(servers) == 1 and servers[0].state in _SERVING:
        old = servers[0].age_s is not None and servers[0].age_s >= LABEL_AGE_S
        return 1 if old else 0
    return len(servers)


def total(values: Iterable[float | None]) -> float | None:
    """Sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def peak(values: Iterable[float | None]) -> float | None:
    """Highest of what is known; None when nothing is."""
    return max((value for value in values if value is not None), default=None)
