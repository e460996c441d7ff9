"""The phases as a table: how far, how long, how much longer, and what was estimated at first."""

from __future__ import annotations

from collections.abc import Sequence

from eagle_tui import fmt
from eagle_tui.protocol import Estimate, PhaseStatus
from eagle_tui.ui.canvas import Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.frame import Frame
from eagle_tui.ui.grid import Column
from eagle_tui.ui.phase_lines import foretold
from eagle_tui.ui.widgets.table import Cells, Table, drawn, fitted, titles

COLUMNS = (
    Column("name", "phase", 10),
    Column("state", "state", 10),
    Column("bar", "", 14),
    Column("percent", "%", 4, right=True),
    Column("done", "done/total", 15, right=True),
    Column("attempt", "attempt", 7, right=True),
    Column("elapsed", "elapsed", 8, right=True),
    Column("eta", "left", 10, right=True),
    Column("finish", "done at", 9, right=True),
    Column("first", "first estimate", 14, right=True),
    Column("actual", "actual", 9, right=True),
    Column("reason", "", 20),
)
_PRIORITY = (
    "name", "state", "percent", "elapsed", "eta", "done", "first", "actual", "finish", "reason",
    "bar", "attempt",
)  # fmt: skip


class PhaseTable(Table):
    """One row per phase."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self._by_name: dict[str, PhaseStatus] = {}
        self._now = 0.0
        self.estimates: Sequence[Estimate] = ()

    def show(self, frame: Frame) -> None:
        first = not self._by_name
        self._by_name = {phase.name: phase for phase in frame.status.phases}
        self._now = frame.now
        if first and self._by_name:
            at_work = [name for name, phase in self._by_name.items() if phase.state != "done"]
            self.select((at_work or list(self._by_name))[0])
        self.fill()

    @property
    def phase(self) -> PhaseStatus | None:
        """The one under the cursor."""
        return self._by_name.get(self.selected or "")

    def keys(self) -> Sequence[str]:
        return list(self._by_name)

    def widths(self) -> dict[str, int]:
        return fitted(COLUMNS, _PRIORITY, self.size.width, {}, "reason")

    def header(self, widths: dict[str, int], hidden: int) -> Cells:
        return titles(COLUMNS, widths, self.canvas.palette.muted, hidden)

    def row(self, key: str, widths: dict[str, int]) -> Cells:
        phase, look, glyphs = self._by_name[key], self.canvas.palette, self.canvas.glyphs
        plain = look.muted if phase.state == "pending" else look.text
        share = 1.0 if phase.state == "done" else fmt.share(phase.done, phase.total)
        told = foretold(self.estimates, phase)
        first = told[0] if told else None
        whole = fmt.eta((first.low_s, first.middle_s, first.high_s)) if first else ""
        taken = fmt.duration(first.actual_s) if first and first.actual_s is not None else ""
        if first is not None and taken and not first.final:
            taken = f"~{taken}"
        eta, now = phase.eta_s, self._now
        line = drawn(
            COLUMNS,
            widths,
            {
                "name": (f" {phase.name}", look.strong if phase.state != "pending" else plain),
                "state": (f"{glyphs.state(phase.state)} {phase.state}", look.state(phase.state)),
                "percent": (fmt.percent(share) if share is not None else "", look.strong),
                "done": (fmt.progress(phase.done, phase.total) if phase.done else "", plain),
                "attempt": (str(phase.attempt) if phase.attempt else "", plain),
                "elapsed": (fmt.duration(phase.elapsed_s) if phase.elapsed_s else "", plain),
                "eta": (fmt.eta(eta) if eta else "", plain),
                "finish": (fmt.stamp(now + eta[1], now) if eta else "", look.muted),
                "first": (whole, look.muted),
                "actual": (
                    taken,
                    look.ok if first and first.within else look.warn,
                ),
                "reason": (f" {phase.reason}", look.muted),
            },
        )
        if "bar" in widths:
            filled, track = bar(share, widths["bar"], glyphs)
            line["bar"] = Pen().add(filled, look.state(phase.state)).add(track, look.track).segments
        return line
