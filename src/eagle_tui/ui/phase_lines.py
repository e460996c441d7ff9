"""What is known of one phase as lines: why it stands there, output, inputs, attempts, estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.style import Style

from eagle_tui import fmt
from eagle_tui.protocol import Estimate, PhaseStatus
from eagle_tui.records import AttemptRecord, ManifestRecord, PhaseRecord
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.glyphs import Glyphs
from eagle_tui.ui.palette import Palette
from eagle_tui.ui.wrap import safe_line, wrap

_LABEL = 12


@dataclass(frozen=True)
class Foretold:
    """What was estimated once, held against what came or is estimated now."""

    at: float
    done: int | None
    total: int | None
    low_s: float
    middle_s: float
    high_s: float
    """How long the phase takes in all, as estimated then."""
    actual_s: float | None
    """How long it took; while it runs, how long it takes as estimated now."""
    final: bool
    """Whether that is what it took."""

    @property
    def error(self) -> float | None:
        """How far the middle was off, as a share of what came: 0.2 is 20 % too long."""
        return (self.middle_s - self.actual_s) / self.actual_s if self.actual_s else None

    @property
    def within(self) -> bool | None:
        """Whether it came within the range."""
        return None if self.actual_s is None else self.low_s <= self.actual_s <= self.high_s


def foretold(estimates: Iterable[Estimate], phase: PhaseStatus) -> list[Foretold]:
    """The phase's estimates, the oldest first."""
    actual, final = None, phase.state == "done"
    if phase.elapsed_s is not None:
        if final:
            actual = phase.elapsed_s
        elif phase.eta_s is not None:
            actual = phase.elapsed_s + phase.eta_s[1]
    found = []
    for item in estimates:
        if item.phase != phase.name or item.elapsed_s is None:
            continue
        low, middle, high = (item.elapsed_s + left for left in item.eta_s)
        found.append(Foretold(item.at, item.done, item.total, low, middle, high, actual, final))
    return found


class PhaseLines:
    """Writes the lines of a phase for a width."""

    def __init__(self, look: Palette, glyphs: Glyphs, now: float, width: int) -> None:
        self.look, self.glyphs, self.now, self.width = look, glyphs, now, width

    def all(
        self, phase: PhaseStatus, record: PhaseRecord | None, estimates: Sequence[Estimate]
    ) -> list[Line]:
        """Everything, in the order in which it is asked for."""
        look = self.look
        out: list[Line] = []
        if phase.reason:
            out += self._text("why", phase.reason, look.state(phase.state))
        if phase.last_exit is not None:
            out += self._text("last exit", phase.last_exit.words, look.muted)
        if phase.figures:
            told = "  ".join(
                f"{name.replace('_', ' ')} {_figure(value)}"
                for name, value in phase.figures.items()
            )
            out += self._text("figures", told, look.text)
        out += self._estimates(foretold(estimates, phase))
        if record is not None:
            if record.manifest is not None:
                out += self._manifest(record.manifest)
            else:
                out += self._text("output", "none yet", look.muted)
            out += self._attempts(record.attempts)
        return out

    def _text(self, label: str, text: str, style: Style) -> list[Line]:
        lines: list[Line] = []
        for index, part in enumerate(wrap(text, max(self.width - _LABEL - 2, 20))):
            pen = Pen().cell(f" {label}" if index == 0 else "", _LABEL, self.look.muted)
            lines.append(pen.add(part, style).segments)
        return lines

    def _estimates(self, rows: Sequence[Foretold]) -> list[Line]:
        lines: list[Line] = []
        for index, row in enumerate(rows):
            pen = Pen().cell(" estimates" if index == 0 else "", _LABEL, self.look.muted)
            pen.cell(fmt.moment(row.at, self.now), 10, self.look.muted)
            share = fmt.percent(fmt.share(row.done, row.total))
            pen.cell(f"at {share}", 8, self.look.text)
            whole = fmt.eta((row.low_s, row.middle_s, row.high_s))
            pen.cell(f"{whole} in all", 20, self.look.text)
            if row.actual_s is not None and row.error is not None:
                word = "took" if row.final else "now expected"
                pen.add(f"{word} {fmt.duration(row.actual_s)}, ", self.look.muted)
                style = self.look.ok if row.within else self.look.warn
                side = "too long" if row.error >= 0 else "too short"
                inside = "within the range" if row.within else "out of the range"
                pen.add(f"{fmt.percent(abs(row.error))} {side}, {inside}", style)
            lines.append(pen.segments)
        return lines

    def _manifest(self, made: ManifestRecord) -> list[Line]:
        look = self.look
        head = f"made {fmt.stamp(made.made_at, self.now)} by attempt {made.attempt}: "
        head += f"{fmt.exact(made.files)} files, {fmt.size(made.bytes)}"
        out = self._text("output", head, look.text)
        if made.early:
            out += self._text("early", made.early, look.warn)
        for name, value in made.counts.items():
            out += self._text("", f"{name}: {_count(value)}", look.text)
        for index, (name, mark) in enumerate(made.inputs.items()):
            out += self._text("from" if index == 0 else "", f"{name}  {mark}", look.muted)
        for index, (name, size) in enumerate(made.outputs.items()):
            label = "files" if index == 0 else ""
            out += self._text(label, f"{fmt.size(size):>9}  {name}", look.muted)
        if made.files > len(made.outputs):
            out += self._text("", f"and {made.files - len(made.outputs)} more", look.muted)
        if made.versions:
            told = ", ".join(f"{name} {value}" for name, value in made.versions.items())
            out += self._text("versions", told, look.muted)
        return out

    def _attempts(self, attempts: Sequence[AttemptRecord]) -> list[Line]:
        lines: list[Line] = []
        for index, item in enumerate(reversed(attempts)):
            pen = Pen().cell(" attempts" if index == 0 else "", _LABEL, self.look.muted)
            pen.cell(str(item.number), 4, self.look.strong)
            pen.cell(fmt.moment(item.began_at, self.now), 10, self.look.muted)
            last = item.last_at if item.last_at is not None else self.now
            pen.cell(fmt.duration(last - item.began_at), 9, self.look.text)
            newest = index == 0
            word, state = outcome(item, newest)
            pen.add(f"{self.glyphs.state(state)} ", self.look.state(state))
            pen.add(word, self.look.state(state))
            if item.reason:
                room = max(self.width - pen.width - 3, 0)
                pen.add("  ").cell(item.reason, room, self.look.text)
            lines.append(pen.segments)
        return lines


def outcome(item: AttemptRecord, newest: bool) -> tuple[str, str]:
    """How an attempt ended, in words and as a state: one without an end was killed, unless it is
    the newest, which may run."""
    if not item.ended:
        return ("no end yet", "running") if newest else ("killed", "failed")
    states = {"done": "done", "failed": "failed", "stopped": "stopped"}
    return item.outcome or "ended", states.get(item.outcome, "stopped")


def _count(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return safe_line(str(value))
    return fmt.exact(value) if isinstance(value, int) else f"{value:.4g}"


def _figure(value: float | None) -> str:
    if value is None:
        return fmt.NONE
    return f"{value:.4g}" if abs(value) < 1000 else fmt.rate(value)
