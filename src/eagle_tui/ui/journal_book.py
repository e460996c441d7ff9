"""The journal as it is scrolled through: pages around what is read, of all that is kept. Pure."""

from __future__ import annotations

from typing import get_args

from eagle_tui.protocol import Severity
from eagle_tui.records import JournalEntry, JournalMark, JournalPage, JournalQuery

PAGE = 200
PAGES = 12
"""Pages that are held; the farthest one is let go."""
NEAR = 60
"""Entries before an end of what is held at which more are asked for."""
_LEVELS: tuple[Severity | None, ...] = (None, "warning", "error")
assert set(get_args(Severity)) >= {"warning", "error"}


class JournalBook:
    """What is held, what is selected, and what is filtered."""

    def __init__(self) -> None:
        self.severity: Severity | None = None
        self.asked_for = ""
        """What was typed: words, and `@source`."""
        self.begin()

    def begin(self) -> None:
        """Start anew from the newest entry."""
        self._pages: list[JournalPage] = []
        self.entries: list[JournalEntry] = []
        self.selected = 0
        self.asked = False
        self.at_oldest = False
        self._before = self._after = JournalMark(event=0, command=0)
        self.at_newest = True

    def next_severity(self) -> None:
        """Fewer entries, or all again."""
        self.severity = _LEVELS[(_LEVELS.index(self.severity) + 1) % len(_LEVELS)]
        self.begin()

    def _query(self, **marks: JournalMark) -> JournalQuery:
        words = self.asked_for.split()
        source = next((word[1:] for word in words if word.startswith("@")), "")
        text = " ".join(word for word in words if not word.startswith("@"))
        return JournalQuery(
            limit=PAGE,
            severity=self.severity,
            source=source,
            text=text,
            before=marks.get("before"),
            after=marks.get("after"),
        )

    def newest(self) -> JournalQuery:
        """The first page."""
        return self._query()

    def older(self) -> JournalQuery | None:
        """The page before; None when it is not near, or there is none."""
        if self.at_oldest or self.selected >= NEAR:
            return None
        return self._query(before=self._before)

    def newer(self) -> JournalQuery | None:
        """The page after; None when it is not near."""
        near = self.at_newest or len(self.entries) - self.selected <= NEAR
        return self._query(after=self._after) if near else None

    def take_newest(self, page: JournalPage) -> None:
        """The first page came."""
        self.asked = True
        self._pages = [page]
        self._before, self._after = page.before, page.after
        self.at_oldest, self.at_newest = page.done, True
        self._flatten()
        self.selected = max(len(self.entries) - 1, 0)

    def take_older(self, page: JournalPage) -> None:
        """The page before what is held came; the newest may be let go."""
        self._pages.insert(0, page)
        self._before, self.at_oldest = page.before, page.done
        self.selected += len(page.entries)
        if len(self._pages) > PAGES:
            self._pages.pop()
            self._after, self.at_newest = self._pages[-1].after, False
        self._flatten()

    def take_newer(self, page: JournalPage) -> None:
        """What came since, or the page after what is held; the oldest may be let go."""
        follow = self.selected >= len(self.entries) - 1 and self.at_newest
        border, self._after, self.at_newest = self._after, page.after, page.done
        if not page.entries:
            return
        # Few entries at a time would make many pages: they are put to the last one.
        last = self._pages.pop() if self._pages else page.model_copy(update={"entries": ()})
        if len(last.entries) + len(page.entries) <= PAGE:
            entries = last.entries + page.entries
            self._pages.append(last.model_copy(update={"entries": entries, "after": page.after}))
        else:
            self._pages += [last.model_copy(update={"after": border}), page]
        if len(self._pages) > PAGES:
            gone = self._pages.pop(0)
            self._before, self.at_oldest = self._pages[0].before, False
            self.selected = max(self.selected - len(gone.entries), 0)
        self._flatten()
        if follow:
            self.selected = len(self.entries) - 1

    @property
    def current(self) -> JournalEntry | None:
        """The selected entry."""
        return self.entries[self.selected] if self.selected < len(self.entries) else None

    @property
    def newer_than_selected(self) -> int:
        """How many entries lie after the selected one, of those held."""
        return max(len(self.entries) - 1 - self.selected, 0)

    def move(self, by: int) -> None:
        """Select another entry."""
        self.selected = min(max(self.selected + by, 0), max(len(self.entries) - 1, 0))

    def _flatten(self) -> None:
        self.entries = [entry for page in self._pages for entry in page.entries]
