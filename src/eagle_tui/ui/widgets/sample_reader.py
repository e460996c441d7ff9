"""One sample to read: its figures, then its text or its tokens, scrolled by rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events

from eagle_tui import fmt
from eagle_tui.protocol import Sample
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.sample_text import TextLine
from eagle_tui.ui.token_lines import Cell, TokenLine

_SHADE = Style(underline=True)
"""Every second token: where one ends is seen without colour, too."""


class SampleReader(Canvas):
    """Draws lines that were made for its width; making them is the screen's work."""

    def __init__(self) -> None:
        super().__init__(id="reader")
        self.sample: Sample | None = None
        self.flagged = False
        self.lines: Sequence[TextLine | TokenLine] = ()
        self.note = ""
        """What stands in place of the lines, or the token view's summary."""
        self.top = 0

    @property
    def text_width(self) -> int:
        """Cells that a line of text may take."""
        return max(self.size.width - 5, 10)

    def show(self, sample: Sample | None, note: str = "", *, keep_top: bool = False) -> None:
        """Another sample, or none; its lines come later."""
        self.sample, self.note = sample, note
        if not keep_top:
            self.top, self.lines = 0, ()
        self.redraw()

    def show_lines(self, lines: Sequence[TextLine | TokenLine], note: str = "") -> None:
        """The lines of the sample, for the present width."""
        self.lines, self.note = lines, note
        self.top = min(self.top, self._last_top())
        self.redraw()

    def scroll_rows(self, by: int) -> None:
        self.top = min(max(self.top + by, 0), self._last_top())
        self.redraw()

    def scroll_pages(self, by: int) -> None:
        self.scroll_rows(by * max(self._rows() - 1, 1))

    def jump(self, to_end: bool) -> None:
        self.scroll_rows(self._last_top() if to_end else -self.top)

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.scroll_rows(2)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.scroll_rows(-2)

    def _rows(self) -> int:
        return max(self.size.height - 1 - bool(self.note), 1)

    def _last_top(self) -> int:
        return max(len(self.lines) - self._rows(), 0)

    def draw(self, width: int, height: int) -> Iterable[Line]:
        yield self._head(width)
        if self.note:
            yield Pen().add(" ").cell(self.note, width - 2, self.palette.accent).segments
        for line in self.lines[self.top : self.top + self._rows()]:
            yield self._text(line) if isinstance(line, TextLine) else self._tokens(line)

    def _head(self, width: int) -> Line:
        look, sample = self.palette, self.sample
        pen = Pen().add(" ")
        if sample is None:
            return pen.segments
        pen.add(sample.dataset, look.strong)
        ok = sample.state == "complete"
        style = look.ok if ok else look.warn
        pen.add(f"  {self.glyphs.state('done' if ok else 'failed')} {sample.state}", style)
        if sample.finish_reason:
            pen.add(f" ({sample.finish_reason})", look.muted)
        if self.flagged:
            pen.add("  flagged", look.accent)
        total = len(self.lines)
        last = min(self.top + self._rows(), total)
        place = f"{last}/{total} " if total else ""
        for text in (
            f"{fmt.exact(sample.prompt_tokens)} in",
            f"{fmt.exact(sample.completion_tokens)} out",
            f"{fmt.exact(sample.reasoning_tokens)} reasoning",
            fmt.moment(sample.at, self.eagle.clock.wall()),
            sample.endpoint,
            sample.id[:12],
        ):
            if text and pen.width + len(text) + 2 + len(place) < width:
                pen.add(f"  {text}", look.muted)
        return pen.right(Pen().add(place, look.muted), width).segments

    def _text(self, line: TextLine) -> Line:
        look = self.palette
        styles = {
            "prompt": (look.muted, look.track),
            "reasoning": (look.reasoning, look.reasoning),
            "answer": (look.text, look.ok),
            "note": (look.warn, look.track),
        }
        style, gutter = styles[line.part]
        # Told apart by the edge as well, where there are no colours.
        edges = (
            {"reasoning": ":", "answer": "|"} if self._ascii else {"reasoning": "┊", "answer": "▎"}
        )
        pen = Pen().add(f" {edges.get(line.part, ' ')} ", gutter)
        return pen.add(line.text, style + Style(bold=True) if line.heading else style).segments

    def _tokens(self, line: TokenLine) -> Line:
        look = self.palette
        if line.kind == "heading":
            return Pen().add(f" {line.text}", look.strong).segments
        if line.kind == "note":
            return Pen().add(f" {line.text}", look.warn).segments
        pen = Pen().add(" ")
        for cell in line.cells:
            pen.segments += self._cell(cell, line.kind == "ids")
        return pen.segments

    def _cell(self, cell: Cell, is_id: bool) -> list[Segment]:
        look = self.palette
        if is_id:
            style = look.chart if cell.predicted else look.muted
            return [Segment(cell.text, style)]
        style = look.text if cell.predicted else look.muted
        # The cell that parts two tokens is never marked.
        return [Segment(cell.text[:-1], style + _SHADE if cell.odd else style), Segment(" ")]

    @property
    def _ascii(self) -> bool:
        return self.glyphs.mode == "ascii"
