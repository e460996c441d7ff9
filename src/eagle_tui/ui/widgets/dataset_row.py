"""One row of the dataset table: its cells, in the widths of the moment."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style

from eagle_tui import fmt
from eagle_tui.protocol import DatasetStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.frame import Totals
from eagle_tui.ui.grid import Column
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


class RowDrawer:
    """Draws the cells of a row, in the widths of the moment."""

    def __init__(self, canvas: Canvas, widths: dict[str, int], now: float) -> None:
        self.look, self.glyphs = canvas.palette, canvas.glyphs
        self.widths, self.now = widths, now
        self.right = {column.key: column.right for column in COLUMNS}

    def header(self, hidden: int, sorted_by: str = "") -> dict[str, Line]:
        titles = {column.key: column.title for column in COLUMNS}
        titles["name"] = f" {titles['name']}" + (f" (+{hidden})" if hidden else "")
        return {
            key: self._cell(
                key, titles[key], self.look.accent if key == sorted_by else self.look.muted
            )
            for key in self.widths
        }

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
