"""The result of a run as lines: verdict, figures, datasets and settings with bars, what to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.cells import cell_len
from rich.style import Style

from eagle_tui.protocol import Status
from eagle_tui.result import BenchReport, DatasetResult, ResultRecord, SettingResult, Speedup
from eagle_tui.ui import result_tables as tables
from eagle_tui.ui.canvas import Line, Pen, fit
from eagle_tui.ui.chart import bar, nice_top
from eagle_tui.ui.glyphs import Glyphs
from eagle_tui.ui.palette import Palette
from eagle_tui.ui.wrap import wrap

_LABEL = 12
_LONGEST = 24
"""Cells of a column; names are longer only where they are meant to be read whole."""
_BAR, _BAR_MOST = 6, 60
"""Least and most cells of a bar."""
_GAP = 2


class ResultLines:
    """Writes the lines for a width."""

    def __init__(self, look: Palette, glyphs: Glyphs, width: int) -> None:
        self.look, self.glyphs, self.width = look, glyphs, width

    def all(self, record: ResultRecord, status: Status | None) -> list[Line]:
        """Everything there is, the most important first."""
        out: list[Line] = []
        if record.problem:
            out += self._text("", record.problem, self.look.error)
        if record.report is not None:
            if status is not None and (old := tables.stale(status)):
                out += self._text("", old, self.look.warn)
            out += self._report(record.report)
        elif not record.problem:
            said = tables.waiting(status.phases) if status is not None else []
            for index, sentence in enumerate(said):
                out += self._text("", sentence, self.look.muted if index else self.look.strong)
        out += self._leavings(record)
        return out

    # Parts

    def _report(self, report: BenchReport) -> list[Line]:
        look, outcome = self.look, report.outcome
        state = self._state(outcome.speedup)
        style = look.state(state) if state else look.strong
        pen = Pen().add(" ")
        if state:
            pen.add(f"{self.glyphs.state(state)} ", style)
        out: list[Line] = [pen.add(tables.headline(outcome), style + look.strong).segments]
        if outcome.verdict:
            out += self._text("", outcome.verdict, look.text)
        out.append(())
        for label, words in tables.facts(report):
            out += self._text(label, words, look.text)
        for index, hint in enumerate(report.hints):
            out += self._text("look at" if index == 0 else "", hint, look.warn)
        if report.datasets:
            out += [(), *self._datasets(report.datasets)]
        if report.settings:
            out += [(), *self._settings(report.settings)]
        return out

    def _datasets(self, rows: Sequence[DatasetResult]) -> list[Line]:
        top = nice_top(max((row.accept or 0.0 for row in rows), default=0.0))
        return self._table(
            tables.DATASET_HEADS,
            [tables.dataset_cells(row) for row in rows],
            [self._state(row.speedup) for row in rows],
            ("-tok/s without", "-tok/s with"),
            0,
            "accept length",
            [(row.accept, top, None) for row in rows],
        )

    def _settings(self, rows: Sequence[SettingResult]) -> list[Line]:
        gains = [row.speedup.mean if row.speedup else None for row in rows]
        top = nice_top(max((1.2, *(gain for gain in gains if gain is not None))))
        return self._table(
            tables.SETTING_HEADS,
            [tables.setting_cells(row) for row in rows],
            ["failed" if row.failed else self._state(row.speedup) for row in rows],
            ("-tok/s without", "-tok/s with", "-accept", "-topk"),
            2,
            "",
            [(gain, top, 1.0) for gain in gains],
        )

    def _leavings(self, record: ResultRecord) -> list[Line]:
        """How to serve the drafter, and where all lies."""
        look, out = self.look, list[Line]()
        report = record.report
        if report is not None and report.serve:
            out += [(), Pen().add(" To serve it:", look.muted).segments]
            out += [
                Pen().add(f"   {line}", look.accent).segments
                for line in shell_lines(report.serve, self.width - 4)
            ]
            if report.flags:
                out += self._text("measured", f"with {report.flags}", look.muted)
        if record.files:
            out.append(())
        for file in record.files:
            out += self._text(file.label, file.path, look.text)
        return out

    # How they are drawn

    def _state(self, gain: Speedup | None) -> str:
        return tables.STATES[gain.kind] if gain is not None and gain.kind else ""

    def _text(self, label: str, text: str, style: Style) -> list[Line]:
        indent = _LABEL if label else 1
        lines: list[Line] = []
        for index, part in enumerate(wrap(text, max(self.width - indent - 1, 20))):
            pen = Pen().cell(f" {label}" if index == 0 else "", indent, self.look.muted)
            lines.append(pen.add(part, style).segments)
        return lines

    def _table(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[str]],
        states: Sequence[str],
        spare: Sequence[str],
        for_bar: int,
        bar_head: str,
        bars: Sequence[tuple[float | None, float, float | None]],
    ) -> list[Line]:
        """Columns as wide as they need; `spare` ones go where there is no room, the first one
        first, and so many of them for the bar's sake. `bars`: value, top of the scale, and the
        place of a mark, where "slower" ends; drawn in what is left.
        The last column is written with the glyph of its state, and may be longer than the room."""
        last = len(heads) - 1
        widths = {
            i: min(max(cell_len(row[i]) for row in (self._titles(heads), *rows)), _LONGEST)
            for i in range(last)
        }
        longest = max((cell_len(row[last]) for row in rows), default=0) + 2
        for index, name in enumerate(spare):
            least = _BAR + _GAP if index < for_bar else 0
            if self._wide(widths) + least + min(longest, _LONGEST) + 1 <= self.width:
                break
            widths.pop(heads.index(name))
        room = self.width - self._wide(widths) - _GAP - min(longest, _LONGEST) - 1
        width = min(room, _BAR_MOST) if room >= _BAR else 0
        pen = Pen().add(" ")
        for i, cells in widths.items():
            pen.cell(heads[i].lstrip("-"), cells, self.look.muted, heads[i].startswith("-"))
            pen.add(" " * _GAP)
        if width:
            mark_at = _mark_at(bars[0][1], bars[0][2], width)
            if mark_at is not None:
                left = "slower " if mark_at >= len("slower ") else ""
                right = " faster" if mark_at + len("| faster") <= width else ""
                bar_head = f"{left:>{mark_at}}{self.glyphs.mark}{right}"
            pen.add(bar_head[:width], self.look.muted)
        out: list[Line] = [pen.segments]
        for row, state, (value, top, mark) in zip(rows, states, bars, strict=True):
            pen = Pen().add(" ")
            style = self.look.state(state) if state else self.look.text
            for i, cells in widths.items():
                plain = self.look.strong if i == 0 and not heads[0].startswith("-") else None
                pen.cell(row[i], cells, plain or self.look.text, heads[i].startswith("-"))
                pen.add(" " * _GAP)
            if width:
                self._bar(pen, value, top, mark, width)
                pen.add(" " * _GAP)
            if row[last]:
                glyph = f"{self.glyphs.state(state)} " if state else ""
                pen.add(fit(f"{glyph}{row[last]}", max(self.width - pen.width, 0)), style)
            out.append(pen.segments)
        return out

    @staticmethod
    def _titles(heads: Sequence[str]) -> list[str]:
        return [head.lstrip("-") for head in heads]

    @staticmethod
    def _wide(widths: dict[int, int]) -> int:
        return 1 + sum(cells + _GAP for cells in widths.values())

    def _bar(
        self, pen: Pen, value: float | None, top: float, mark: float | None, width: int
    ) -> None:
        filled, track = bar((value or 0.0) / top, width, self.glyphs)
        cells = [(letter, self.look.chart) for letter in filled]
        cells += [(letter, self.look.track) for letter in track]
        if (at := _mark_at(top, mark, width)) is not None:
            cells[at] = (self.glyphs.mark, self.look.muted)
        for letter, style in cells:
            pen.add(letter, style)


def _mark_at(top: float, mark: float | None, width: int) -> int | None:
    """The cell in which a mark lies on a bar's scale; None without one."""
    return None if mark is None else min(int(mark / top * width), width - 1)


def shell_lines(command: str, width: int) -> list[str]:
    """A command line on several ones, so that a shell takes them when they are copied together. A
    word that is longer than a line is broken all the same."""
    lines: list[str] = []
    line = ""
    for word in map(shlex.quote, shlex.split(command)):
        longer = f"{line} {word}" if line else word
        if line and cell_len(longer) > width - 2:
            lines.append(f"{line} \\")
            line = f"  {word}"
        else:
            line = longer
    return [part for one in (*lines, line) for part in wrap(one, max(width, 20))]
