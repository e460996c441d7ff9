"""Widgets drawn line by line that repaint only what changed.

Textual writes a dirty region from the left edge of its widget, so bytes to the terminal are saved
by diffing lines here and by giving what changes often a small widget of its own (see `grid.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from eagle_tui.ui.glyphs import Glyphs, ascii_text
from eagle_tui.ui.palette import Palette
from eagle_tui.ui.wrap import safe_line

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp

Line = Sequence[Segment]


def fit(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` in exactly `width` cells, cut with an ellipsis where it is longer."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + ellipsis


class Pen:
    """Collects the segments of one line. Every text is made harmless on its way in."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.width = 0

    def add(self, text: str, style: Style | None = None) -> Pen:
        """Append text as it is wide."""
        text = safe_line(text)
        if text:
            self.segments.append(Segment(text, style))
            self.width += cell_len(text)
        return self

    def cell(self, text: str, width: int, style: Style | None = None, right: bool = False) -> Pen:
        """Append text in exactly `width` cells."""
        text = safe_line(text)
        room = width - cell_len(text)
        if right and room > 0:
            text = " " * room + text
        return self.add(fit(text, width), style)

    def upto(self, text: str, width: int, style: Style | None = None) -> Pen:
        """Append text as it is wide, cut with an ellipsis where that is more than `width` cells."""
        text = safe_line(text)
        return self.add(text if cell_len(text) <= width else fit(text, width), style)

    def right(self, pen: Pen, width: int) -> Pen:
        """Append `pen` so that the line ends at `width`; left out where there is no room."""
        room = width - self.width - pen.width
        if room >= 1:
            self.add(" " * room)
            self.segments.extend(pen.segments)
            self.width += pen.width
        return self


class Canvas(Widget):
    """A widget whose content is `draw(width, height)`; `redraw` repaints the lines that differ."""

    DEFAULT_CSS = "Canvas { height: 1; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._strips: list[Strip] = []
        self._strips_for = Size()
        self._lines_drawn: list[Line] = []
        """What the strips were made of."""
        self._base: Style | None = None
        """The widget's own style, worked out once for all lines that are painted."""

    def draw(self, width: int, height: int) -> Iterable[Line]:
        """The lines to show, at most `height`. Called with a size above zero."""
        raise NotImplementedError

    @property
    def eagle(self) -> EagleApp:
        """The app, typed."""
        return cast("EagleApp", self.app)

    @property
    def palette(self) -> Palette:
        return self.eagle.palette

    @property
    def glyphs(self) -> Glyphs:
        return self.eagle.glyphs

    def redraw(self) -> None:
        """Draw again and mark what differs from what is shown. Cheap when nothing does."""
        if not self.size or not self.is_attached:
            return
        old, before = self._strips, self._strips_for
        self._draw_strips()
        if before != self._strips_for:
            self.refresh()
            return
        regions = [
            Region(start, y, end - start, 1)
            for y, (was, now) in enumerate(zip(old, self._strips, strict=True))
            if was is not now
            for start, end in changed_span(was, now)
        ]
        if regions:
            self.refresh(*regions)

    def _draw_strips(self) -> None:
        width, height = size = self.size
        lines = self._drawn(width, height)[:height]
        lines += [()] * (height - len(lines))
        if self.glyphs.mode == "ascii":
            lines = [_plain(line) for line in lines]
        if self._strips_for != size:
            self._lines_drawn, self._strips_for = [], size
        same = len(self._lines_drawn)
        # Most lines are what they were.
        self._strips = [
            self._strips[y]
            if y < same and self._lines_drawn[y] == line
            else Strip(line).adjust_cell_length(width)
            for y, line in enumerate(lines)
        ]
        self._lines_drawn = lines

    def _drawn(self, width: int, height: int) -> list[Line]:
        """What `draw` gives. A fault of one panel is told in its place: the others, and the keys,
        are needed all the more. Without a terminal, as under tests, it is raised."""
        try:
            return list(self.draw(width, height))
        except Exception as error:
            if self.app.is_headless:
                raise
            sentence = f" This panel cannot be drawn ({error!r}); the run is not concerned."
            return [Pen().cell(sentence, width, self.palette.error).segments]

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = None
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        if self._strips_for != self.size:
            # Textual lays out, paints, and tells of the new size only then.
            self._draw_strips()
        if self._base is None:
            self._base = self.rich_style
        return self._strips[y].apply_style(self._base)

    def on_resize(self) -> None:
        self.redraw()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.redraw())


def _plain(line: Line) -> Line:
    """The line with our own punctuation as ASCII; foreign text keeps its letters."""
    return [Segment(ascii_text(segment.text), segment.style) for segment in line]


def changed_span(before: Strip, after: Strip) -> list[tuple[int, int]]:
    """The cells [start, end) outside which two strips of equal length agree; [] when equal."""
    old, new = list(before), list(after)
    if old == new:
        return []
    start = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        start += one.cell_length
    end = after.cell_length
    for one, other in zip(reversed(old), reversed(new), strict=False):
        if one != other or end - one.cell_length < start:
            break
        end -= one.cell_length
    return [(start, end)] if end > start else []
