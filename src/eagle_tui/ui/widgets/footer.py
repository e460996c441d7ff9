"""The footer: the registry's actions with their keys. What it shows acts, by key or by click."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import events

from eagle_tui.actions import ACTIONS, Action
from eagle_tui.protocol import Status
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.keys import key_text
from eagle_tui.ui.verdict import active_phase

_ALWAYS = ("help", "quit")
_VOWELS = frozenset("aeiou")
_SHORTEST = 4


def footer_actions(status: Status | None, readonly: bool) -> list[Action]:
    """The actions worth a place now: pause or resume, whichever can act; none that would be
    refused because the screen is read-only."""
    held = False
    if status is not None:
        active = active_phase(status)
        held = active is not None and active.state in ("paused", "draining")
    hidden = {"pause"} if held else {"resume"}
    return [
        action
        for action in ACTIONS
        if action.footer
        and action.key
        and action.id not in hidden
        and not (readonly and action.verb)
    ]


def shorten(word: str, most: int = _SHORTEST) -> str:
    """A label cut to at most `most` letters, at a consonant: Concurrency is Conc."""
    if len(word) <= most + 1:
        return word
    cut = word[:most]
    while len(cut) > 2 and cut[-1] in _VOWELS:
        cut = cut[:-1]
    return cut


def fit_labels(actions: Sequence[Action], width: int) -> list[tuple[Action, str]]:
    """Actions with labels that fit: the longest are shortened, then the last but help and quit
    are left out (their keys still act, and help shows them)."""
    kept = list(actions)
    labels = {action.id: action.label for action in kept}

    def needed() -> int:
        texts = [f"{key_text(action.key or '')} {labels[action.id]}" for action in kept]
        return sum(len(text) for text in texts) + len(texts) - 1 + 2

    for action in sorted(kept, key=lambda item: -len(item.label)):
        if needed() <= width:
            break
        if action.id in _ALWAYS:
            continue
        labels[action.id] = shorten(action.label)
    while needed() > width:
        droppable = [action for action in kept if action.id not in _ALWAYS]
        if not droppable:
            break
        kept.remove(droppable[-1])
    return [(action, labels[action.id]) for action in kept]


class KeyFooter(Canvas):
    """Keys and what they do."""

    DEFAULT_CSS = "KeyFooter { background: $panel; }"

    def __init__(self) -> None:
        super().__init__()
        self._status: Status | None = None
        self._places: list[tuple[int, int, str]] = []

    def show(self, status: Status) -> None:
        self._status = status
        self.redraw()

    def shown(self) -> list[tuple[Action, str]]:
        """The actions drawn now, with their labels."""
        actions = footer_actions(self._status, self.eagle.readonly)
        return fit_labels(actions, self.size.width)

    def draw(self, width: int, height: int) -> Iterable[Line]:
        shown = self.shown()
        used = sum(len(label) + len(key_text(action.key or "")) + 1 for action, label in shown)
        gap = 2 if used + 2 * len(shown) <= width else 1
        pen = Pen().add(" ")
        self._places = []
        for action, label in shown:
            start = pen.width
            pen.add(key_text(action.key or ""), self.palette.key)
            pen.add(f" {label}", self.palette.text)
            self._places.append((start, pen.width, action.id))
            pen.add(" " * gap)
        yield pen.segments

    async def on_click(self, event: events.Click) -> None:
        for start, end, action_id in self._places:
            if start <= event.x < end:
                await self.screen.run_action(f"act('{action_id}')")
