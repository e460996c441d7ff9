"""The newest events and commands, as many as there are lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eagle_tui.ui.canvas import Canvas, Line
from eagle_tui.ui.journal import Entry, one_line


class EventLines(Canvas):
    """What happened last, newest at the bottom."""

    entries: Sequence[Entry] = ()

    def show(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        now = self.eagle.clock.wall()
        for entry in self.entries[-height:]:
            yield one_line(entry, now, width, self.palette, self.glyphs)
