"""The stretch of a log that is held: rows around the place that is read. Pure.

Rows come page by page at both ends and are let go at the far one: any log takes the same memory.
"""

from __future__ import annotations

from eagle_tui.records import LogLevel, LogLine, LogPage, LogQuery

KEPT = 1200
FETCH = 300
NEAR = 120
"""Rows before an end of what is held at which more are asked for."""
LEVELS: tuple[LogLevel | None, ...] = (None, "warning", "error")


class LogWindow:
    """What is held of one log."""

    def __init__(self) -> None:
        self.name = ""
        self.level: LogLevel | None = None
        self.text = ""
        self.begin("")

    def begin(self, name: str) -> None:
        """Another log, or the same anew from its end."""
        self.name = name
        self.match: int | None = None
        """The byte of the row that the last search found."""
        self.follow = True
        self._forget()

    def _forget(self) -> None:
        self.lines: list[LogLine] = []
        self.top = 0
        self.asked = False
        self.size = 0
        self._start = self._end = 0
        self.at_start = self.at_end = False

    def next_level(self) -> None:
        """Show fewer rows, or all again; the place stays."""
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]

    # -- what to ask for --------------------------------------------------------------------------

    def around(self, offset: int | None) -> LogQuery:
        """The rows before a byte; None: before the end. What comes after is asked for then."""
        return self._query(at=offset, backward=True)

    def older(self) -> LogQuery | None:
        """More before what is held; None when it is not near enough, or there is none."""
        near = self.top < NEAR
        return self._query(at=self._start, backward=True) if near and not self.at_start else None

    def newer(self, rows: int) -> LogQuery | None:
        """More after what is held; None when `rows` rows from the top on are not near its end."""
        near = len(self.lines) - self.top - rows < NEAR
        return self._query(at=self._end) if near and not self.at_end else None

    def appended(self) -> LogQuery:
        """What was written since."""
        return self._query(at=self._end)

    def search(self, backward: bool) -> LogQuery:
        """The next row that holds the text, from the last one found or the top on."""
        here = self.match if self.match is not None else self.offset
        at = here if backward else here + (self.match is not None)
        return self._query(at=at, backward=backward, rows=1, text=self.text)

    def _query(self, **parts: object) -> LogQuery:
        return LogQuery.model_validate(
            {"name": self.name, "rows": FETCH, "level": self.level, **parts}
        )

    # -- what came --------------------------------------------------------------------------------

    def take_around(self, page: LogPage, offset: int | None) -> None:
        """A first page: the rows before `offset`."""
        match, follow = self.match, self.follow
        self._forget()
        self.match, self.follow = match, follow
        self.asked = True
        self.lines = list(page.lines)
        self.size = page.size
        self._start, self._end = page.start, page.end
        self.at_start, self.at_end = page.done, offset is None
        self.top = len(self.lines)

    def take_older(self, page: LogPage) -> None:
        """Rows before what is held."""
        self.lines = [*page.lines, *self.lines]
        self.top += len(page.lines)
        self._start, self.at_start = page.start, page.done
        if len(self.lines) > KEPT:
            self._end = self.lines[KEPT].offset
            del self.lines[KEPT:]
            self.at_end = False

    def take_newer(self, page: LogPage) -> None:
        """Rows after what is held; the last row is given again while it is not whole."""
        self.size = page.size
        if page.size < self._end:
            # The file was cut: what is held is no more.
            self.begin(self.name)
            return
        kept = [line for line in self.lines if line.offset < self._end]
        self.lines = [*kept, *page.lines]
        self._end, self.at_end = page.end, page.done
        extra = len(self.lines) - KEPT
        if extra > 0 and self.top >= extra:
            self.lines = self.lines[extra:]
            self._start = self.lines[0].offset
            self.at_start = False
            self.top -= extra

    # -- moving -----------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """The byte of the first row in sight."""
        if not self.lines:
            return 0
        return self.lines[min(self.top, len(self.lines) - 1)].offset

    @property
    def share(self) -> float | None:
        """How far down the file the first row in sight is, 0..1."""
        return self.offset / self.size if self.size else None

    def scroll(self, by: int, last_top: int) -> None:
        """By rows. Reaching the end of the log means to follow it, leaving it not to."""
        self.top = min(max(self.top + by, 0), max(last_top, 0))
        self.follow = self.at_end and self.top >= last_top
