"""The list of samples as it is read: in order, growing at both ends, still while read. Pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from eagle_tui.records import SAMPLE_ORDERS, SampleHead, SampleOrder, SamplePage, SampleQuery

KEPT = 2000
"""Lines of a list; who wants more narrows it by dataset or text."""
PAGE = 50
NEAR_END = 15
"""Lines before the last one at which more are asked for."""


def _rank(order: SampleOrder, head: SampleHead) -> tuple[float, float]:
    if order == "longest":
        return (-head.completion_tokens, -head.at)
    return (-head.at, 0.0)


class SampleBook:
    """What was found of one order, dataset and text, and where to look on.

    What comes in while somebody reads waits, and its number is told, so that nothing moves under
    the reader's eyes.
    """

    def __init__(self) -> None:
        self.order: SampleOrder = "newest"
        self.dataset: str | None = None
        self.text = ""
        self.begin()

    def begin(self) -> None:
        """Look anew from the files' ends, as after another order, dataset or text."""
        self.heads: list[SampleHead] = []
        self.waiting: list[SampleHead] = []
        self.selected = 0
        self.asked = False
        """Whether a first look has come back."""
        self.done = False
        self.rewritten = False
        self.looked = self.total = self.skipped = 0
        self._cursor: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._known: set[tuple[str, str]] = set()

    def next_order(self) -> None:
        """The order after this one."""
        at = SAMPLE_ORDERS.index(self.order)
        self.order = SAMPLE_ORDERS[(at + 1) % len(SAMPLE_ORDERS)]
        self.begin()

    def next_dataset(self, names: Iterable[str]) -> None:
        """The dataset after this one; after the last, all of them."""
        circle = [None, *names]
        at = circle.index(self.dataset) if self.dataset in circle else 0
        self.dataset = circle[(at + 1) % len(circle)]
        self.begin()

    @property
    def current(self) -> SampleHead | None:
        """The selected line."""
        return self.heads[self.selected] if self.selected < len(self.heads) else None

    @property
    def full(self) -> bool:
        """Whether the list is as long as it may be."""
        return len(self.heads) >= KEPT

    def wants_more(self) -> bool:
        """Whether to look on now: a first page is not full, the end of the list is near, or the
        longest of all are not known until all was seen."""
        if self.done or (self.full and self.order != "longest"):
            return False
        return self.order == "longest" or len(self.heads) < self.selected + PAGE - NEAR_END

    def more(self) -> SampleQuery:
        """To look on backward."""
        return self._query(cursor=self._cursor)

    def first(self) -> SampleQuery:
        """To look from the files' ends, as far as they are to be seen now."""
        return self._query()

    def reaches_beyond(self, at: float) -> bool:
        """Whether something is held that is later than Unix time `at`."""
        return any(head.at > at for head in (*self.heads, *self.waiting))

    def news(self) -> SampleQuery:
        """To look at what came since."""
        return self._query(floor=self._ends)

    def _query(self, **bounds: dict[str, int]) -> SampleQuery:
        return SampleQuery.model_validate(
            {
                "order": self.order,
                "dataset": self.dataset,
                "text": self.text,
                "limit": PAGE,
                **bounds,
            }
        )

    def take_more(self, page: SamplePage) -> None:
        """What looking on found."""
        if not self.asked:
            self._ends = page.ends
        self.asked = True
        self.looked, self.total, self.done = page.looked, page.total, page.done
        self.skipped += page.skipped
        self._cursor = page.cursor
        self._add(page.heads)

    def take_news(self, page: SamplePage, reading: bool) -> None:
        """What came since. While somebody reads, it waits."""
        self.rewritten = self.rewritten or page.rewritten
        if page.rewritten:
            return
        self._ends = {**self._ends, **page.ends}
        fresh = [head for head in page.heads if (head.dataset, head.id) not in self._known]
        waiting = {(head.dataset, head.id): head for head in (*self.waiting, *fresh)}
        self.waiting = list(waiting.values())[-KEPT:]
        if not reading:
            self.catch_up()

    def catch_up(self) -> None:
        """Take in what waits, and go to the first line."""
        waiting, self.waiting = self.waiting, []
        self._add(waiting)
        self.selected = 0

    def move(self, by: int) -> bool:
        """Select another line; False when it is the same."""
        before = self.selected
        self.selected = min(max(self.selected + by, 0), max(len(self.heads) - 1, 0))
        return self.selected != before

    def mark(self, dataset: str, id: str, flagged: bool) -> None:
        """A response was flagged, or is no more."""
        for index, head in enumerate(self.heads):
            if (head.dataset, head.id) == (dataset, id):
                self.heads[index] = head.model_copy(update={"flagged": flagged})

    def _add(self, heads: Iterable[SampleHead]) -> None:
        """Put in at its place, and keep what is selected selected."""
        held = self.current
        for head in heads:
            if (head.dataset, head.id) in self._known:
                continue
            self._known.add((head.dataset, head.id))
            insort(self.heads, head, key=lambda item: _rank(self.order, item))
        for head in self.heads[KEPT:]:
            self._known.discard((head.dataset, head.id))
        del self.heads[KEPT:]
        if held is not None and held in self.heads:
            self.selected = self.heads.index(held)
