"""A log's rows, drawn from what its window holds; and the list of logs beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from eagle_tui import fmt
from eagle_tui.records import LogFile, LogLine
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.log_window import LogWindow
from eagle_tui.ui.wrap import safe_line, wrap

_STAMP = re.compile(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]\s]*(?: [A-Z]{2}\d+[^\]]*)?\]?\s*")
_INDENT = "  "


class LogView(Canvas):
    """Draws a window of a log: a line of what it is, then its rows."""

    def __init__(self, window: LogWindow) -> None:
        super().__init__(id="log")
        self._window = window
        self.wrapped = False
        self.shift = 0
        """Cells by which cut rows are scrolled sideways."""
        self.note = ""
        self.alarm = False
        """Whether the note is a complaint."""
        self.position = ""

    @property
    def rows(self) -> int:
        """Lines for rows of the log."""
        return max(self.size.height - 1, 1)

    def last_top(self) -> int:
        """The first row in sight when the last one is at the bottom."""
        lines, room = self._window.lines, self.rows
        if not self.wrapped:
            return max(len(lines) - room, 0)
        used = 0
        for index in range(len(lines) - 1, -1, -1):
            used += len(self._parts(lines[index], self.size.width - 2))
            if used > room:
                return min(index + 1, len(lines) - 1)
        return 0

    def say(self, note: str, alarm: bool = False) -> None:
        """Show a word on what was asked for; empty: none."""
        self.note, self.alarm = note, alarm
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        window = self._window
        yield self._head(width)
        room = height - 1
        if window.asked and not window.lines:
            what = "No row of this level." if window.level else "This log is empty."
            what = what if window.at_start or not window.level else "Looking …"
            yield Pen().add(f"  {what}", self.palette.muted).segments
            return
        for line in window.lines[window.top : window.top + room]:
            for part in self._row(line, width):
                if room == 0:
                    return
                room -= 1
                yield part

    def _head(self, width: int) -> Line:
        window, look = self._window, self.palette
        pen = Pen().add(" ").add(window.name or "no log yet", look.strong)
        if self.position:
            pen.add(f"  {self.position}", look.muted)
        pen.add(f"  {fmt.size(window.size)}", look.muted)
        if window.level:
            pen.add(f"  {window.level} and above", look.state(window.level))
        if window.text:
            pen.add("  /", look.key).add(window.text, look.strong)
        if self.note:
            pen.add(f"  {self.note}", look.warn if self.alarm else look.accent)
        right = Pen()
        if window.follow:
            right.add("following ", look.ok)
        else:
            at = window.lines[window.top].at if window.top < len(window.lines) else None
            when = f"{fmt.moment(at, self.eagle.clock.wall())}  " if at is not None else ""
            right.add(f"{when}{fmt.percent(window.share)} ", look.muted)
        return pen.right(right, width).segments

    def _row(self, line: LogLine, width: int) -> Iterable[Line]:
        look, window = self.palette, self._window
        level = line.level if line.level in ("warning", "error") else ""
        sign = self.glyphs.state(level) if level else " "
        style = look.state(level) if level else look.text
        found = line.offset == window.match
        for index, text in enumerate(self._parts(line, width - 2)):
            pen = Pen().add(f"{sign if index == 0 else ' '} ", style)
            stamp = _STAMP.match(text) if index == 0 and not self.shift else None
            cut = stamp.end() if stamp else 0
            pen.add(text[:cut], look.muted)
            self._marked(pen, text[cut:], style, look.key if found else look.accent)
            segments = list(Strip(pen.segments).adjust_cell_length(width))
            if pen.width > width:
                segments = [*Strip(pen.segments).crop(0, width - 1), self._more]
            yield list(Segment.apply_style(segments, post_style=look.cursor)) if found else segments

    @property
    def _more(self) -> Segment:
        """What stands at the end of a row that is cut."""
        return Segment(self.glyphs.ellipsis, self.palette.muted)

    def _marked(self, pen: Pen, text: str, style: Style, mark: Style) -> None:
        """Add a text in which every place that holds what was searched for stands out."""
        wanted = self._window.text
        if not wanted or len(wanted) != len(wanted.casefold()) or len(text) != len(text.casefold()):
            pen.add(text, style)
            return
        low, at = text.casefold(), 0
        while (next_at := low.find(wanted.casefold(), at)) >= 0:
            pen.add(text[at:next_at], style)
            at = next_at + len(wanted)
            pen.add(text[next_at:at], mark + Style(bold=True, underline=True))
        pen.add(text[at:], style)

    def _parts(self, line: LogLine, width: int) -> Sequence[str]:
        """The screen lines of a row."""
        text = line.text
        if line.updates:
            text = f"{text}  ({line.updates} state{'s' * (line.updates > 1)} before)"
        if self.wrapped:
            first, *rest = wrap(text, max(width - len(_INDENT), 10)) or [""]
            return [first, *(_INDENT + part for part in rest)]
        return [safe_line(text)[self.shift :]]

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.screen.post_message(Scrolled(3))

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.screen.post_message(Scrolled(-3))


class Scrolled(Message):
    """The wheel was turned over the log."""

    def __init__(self, by: int) -> None:
        self.by = by
        super().__init__()


class LogList(Canvas):
    """All logs, the one written last first; the one shown is marked."""

    class Picked(Message):
        """A log was clicked."""

        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="logs")
        self.files: Sequence[LogFile] = ()
        self.shown = ""
        self._top = 0

    def show(self, files: Sequence[LogFile], shown: str) -> None:
        """Draw these, with the one that is shown."""
        self.files, self.shown = files, shown
        self.redraw()

    def draw(self, width: int, height: int) -> Iterable[Line]:
        look = self.palette
        yield Pen().add(f" {len(self.files)} logs", look.muted).segments
        at = next((i for i, file in enumerate(self.files) if file.name == self.shown), 0)
        room = height - 1
        self._top = max(min(self._top, at), at - room + 1, 0)
        now = self.eagle.clock.wall()
        for index, file in enumerate(self.files[self._top : self._top + room], self._top):
            here = index == at
            pen = Pen().add(" ")
            pen.cell(file.name.removesuffix(".log"), width - 17, look.strong if here else look.text)
            pen.cell(fmt.size(file.size), 9, look.muted, right=True)
            pen.cell(fmt.age(max(now - file.modified, 0)), 6, look.muted, right=True).add(" ")
            yield (
                list(Segment.apply_style(pen.segments, post_style=look.cursor))
                if here
                else (pen.segments)
            )

    def on_click(self, event: events.Click) -> None:
        index = self._top + event.y - 1
        if event.y >= 1 and index < len(self.files):
            self.post_message(self.Picked(self.files[index].name))
