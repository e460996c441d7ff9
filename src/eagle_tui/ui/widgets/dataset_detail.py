"""One dataset, all that is known of it: figures, lengths, how responses ended, failures, caps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.style import Style

from eagle_tui import fmt
from eagle_tui.protocol import HISTOGRAM_EDGES, DatasetStatus, LengthFigures
from eagle_tui.records import FailureCount
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.wrap import safe_line, wrap

_LABEL = 12


class DatasetFacts(Canvas):
    """Figures of a dataset in two rows: how far, how fast, how long; the last hour against all."""

    row: DatasetStatus | None = None
    now = 0.0

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self.row is None:
            return
        row, look = self.row, self.palette
        pen = Pen().add(f" {self.glyphs.state(row.state)} ", look.state(row.state))
        pen.add(safe_line(row.name), look.strong).add(f"  {row.state}", look.state(row.state))
        pen.add(f"  {fmt.progress(row.done, row.prompts)}", look.text)
        pen.add(f"  {fmt.percent(fmt.share(row.done, row.prompts))}", look.strong)
        for label, value in (
            ("/min", fmt.rate(row.rate_per_min)),
            ("tok/s", fmt.rate(row.tok_s)),
            ("in flight", f"{row.in_flight}/{row.concurrency or fmt.NONE}"),
            ("left", fmt.eta_finish(row.eta_s, self.now)),
        ):
            if pen.width + len(label) + len(value) + 4 <= width:
                pen.add(f"   {label} ", look.muted).add(value, look.text)
        yield pen.segments
        if height >= 2:
            yield self._lengths("all", row, width)
        if height >= 3:
            hour = row.hour
            if hour is None:
                yield Pen().add("   nothing finished in the last hour", look.muted).segments
            else:
                yield self._lengths("last hour", hour, width)

    def _lengths(self, label: str, of: DatasetStatus | LengthFigures, width: int) -> Line:
        pen = Pen().add(f"   {label:<10}", self.palette.muted)
        for name, title in (
            ("mean", "mean"), ("p50", "P50"), ("p90", "P90"), ("p95", "P95"), ("p99", "P99"),
        ):  # fmt: skip
            value = fmt.count(getattr(of, f"tokens_{name}"))
            if pen.width + len(title) + len(value) + 3 <= width:
                pen.add(f"{title} ", self.palette.muted).add(f"{value:<6} ", self.palette.text)
        reasoned = fmt.percent(of.reasoning_share)
        if pen.width + 24 <= width:
            pen.add("reasoning ", self.palette.muted).add(reasoned, self.palette.text)
            pen.add(f", {fmt.count(of.reasoning_mean)} tokens", self.palette.muted)
        return pen.segments


class Histogram(Canvas):
    """Responses by length, a bar per factor of √2; as many rows as there are."""

    row: DatasetStatus | None = None

    def draw(self, width: int, height: int) -> Iterable[Line]:
        look = self.palette
        bars = self.row.histogram if self.row else ()
        if not any(bars):
            known = self.row is None or not self.row.tokens
            text = " no response yet" if known else " their lengths were not recorded"
            yield Pen().add(text, look.muted).segments
            return
        shown = joined(bars, height)
        most = max(item.count for item in shown)
        total = sum(item.count for item in shown)
        for item in shown:
            pen = Pen().cell(item.label, 13, look.muted, right=True).add(" ")
            filled, _ = bar(item.count / most, max(width - 27, 4), self.glyphs)
            pen.cell(filled, max(width - 27, 4), look.chart)
            pen.cell(fmt.count(item.count), 6, look.text, right=True)
            yield pen.cell(fmt.percent(item.count / total), 5, look.muted, right=True).segments


@dataclass(frozen=True)
class LengthBar:
    """One bar: lengths from `low` to below `high` (None: and longer)."""

    low: int
    high: int | None
    count: int

    @property
    def label(self) -> str:
        if self.high is None:
            return f"{fmt.count(self.low)}+"
        return f"{fmt.count(self.low)}–{fmt.count(self.high)}"


def joined(bars: Sequence[int], most: int) -> list[LengthBar]:
    """The bars from the first to the last that holds something, neighbours joined until there are
    at most `most`."""
    edges = [0, *HISTOGRAM_EDGES]
    held = [index for index, count in enumerate(bars) if count]
    if not held:
        return []
    first, last = held[0], min(held[-1], len(edges) - 1)
    each = -(-(last - first + 1) // max(most, 1))
    found = []
    for start in range(first, last + 1, each):
        stop = min(start + each, last + 1)
        high = edges[stop] if stop < len(edges) else None
        found.append(LengthBar(edges[start], high, sum(bars[start:stop])))
    return found


class FinishMix(Canvas):
    """How the responses ended, and why prompts failed."""

    row: DatasetStatus | None = None
    failures: Sequence[FailureCount] = ()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self.row is None:
            return
        lines = [*self._states(self.row, width), *self._reasons(width)]
        yield from lines[:height]

    def _states(self, row: DatasetStatus, width: int) -> Iterable[Line]:
        look = self.palette
        states: list[tuple[str, int, Style]] = [
            ("complete", row.complete, look.ok),
            ("truncated", row.truncated, look.warn),
            ("no answer", row.no_answer, look.warn),
            ("loop", row.loop, look.warn),
        ]
        told = row.failures or ({"failed": row.failed} if row.failed else {})
        states += [(name.replace("_", " "), n, look.error) for name, n in sorted(told.items())]
        for name, n, style in states:
            if not n and name != "complete":
                continue
            share = fmt.share(n, row.done)
            cells = max(min(width - _LABEL - 16, 40), 2)
            filled, track = bar(share, cells, self.glyphs)
            pen = Pen().cell(f" {name}", _LABEL + 1, look.muted).add(filled, style)
            pen.add(track, look.track).cell(fmt.exact(n), 8, look.text, right=True)
            yield pen.cell(fmt.percent(share), 6, look.muted, right=True).segments

    def _reasons(self, width: int) -> Iterable[Line]:
        if not self.failures:
            return
        yield Pen().add(" why prompts got no response", self.palette.muted).segments
        for item in self.failures:
            pen = Pen().cell(f" {fmt.exact(item.rows)}×", 8, self.palette.text, right=True)
            given = f" ({fmt.exact(item.given_up)} given up)" if item.given_up else ""
            room = width - pen.width - len(given) - 2
            pen.add("  ").upto(item.reason, room, self.palette.text)
            yield pen.add(given, self.palette.error).segments


@dataclass(frozen=True)
class CapOffer:
    """What a cap would do: the supervisor's own words."""

    tokens: int
    sentence: str
    allowed: bool


class Caps(Canvas):
    """The dataset's caps, the caps over all datasets, and what lower caps would save."""

    row: DatasetStatus | None = None
    total: DatasetStatus | None = None
    offers: Sequence[CapOffer] = ()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        if self.row is None:
            return
        lines = [self._cap("this dataset", self.row, width)]
        if self.total is not None:
            lines.append(self._cap("all together", self.total, width))
        for offer in self.offers:
            style = self.palette.accent if offer.allowed else self.palette.muted
            parts = wrap(offer.sentence, max(width - _LABEL - 3, 20))
            if len(lines) + len(parts) > height:
                break  # half a sentence would lack what the cap saves
            for index, part in enumerate(parts):
                label = f" at {fmt.count(offer.tokens)}" if index == 0 else ""
                pen = Pen().cell(label, _LABEL + 2, self.palette.muted)
                lines.append(pen.add(part, style).segments)
        yield from lines[:height]

    def _cap(self, label: str, row: DatasetStatus, width: int) -> Line:
        look = self.palette
        pen = Pen().cell(f" {label}", _LABEL + 2, look.muted)
        if row.cap_tokens is None and row.cap_samples is None:
            return pen.add(f"{fmt.count(row.tokens)} tokens, no cap", look.text).segments
        share = fmt.share(row.tokens, row.cap_tokens)
        if share is None:
            share = fmt.share(row.done, row.cap_samples)
        filled, track = bar(share, max(min(width - _LABEL - 45, 30), 6), self.glyphs)
        pen.add(filled, look.ok).add(track, look.track).cell(fmt.percent(share), 5, right=True)
        caps = []
        if row.cap_tokens is not None:
            caps.append(f"{fmt.count(row.tokens)} of {fmt.count(row.cap_tokens)} tokens")
        if row.cap_samples is not None:
            caps.append(f"{fmt.exact(row.done)} of {fmt.exact(row.cap_samples)} responses")
        text = ", ".join(caps)
        return pen.add("  ").cell(text, max(width - pen.width - 2, 0), look.text).segments


def offered_caps(row: DatasetStatus) -> list[int]:
    """Round numbers of tokens at which a cap may be worth looking at: between what is there and
    what all prompts would make, or the cap in force."""
    if row.kind != "prompts" or not row.prompts or not row.tokens_mean:
        return []
    whole = row.tokens_mean * row.prompts
    if row.cap_tokens is not None:
        whole = min(whole, row.cap_tokens)
    found = []
    for share in (0.75, 0.5, 0.25):
        tokens = _round(row.tokens + share * (whole - row.tokens))
        if row.tokens < tokens < whole and tokens not in found:
            found.append(tokens)
    return found


def _round(tokens: float) -> int:
    """Two digits: 7,340,000 is 7,300,000."""
    unit: int = 10 ** max(len(str(int(tokens))) - 2, 0)
    return int(round(tokens / unit) * unit)
