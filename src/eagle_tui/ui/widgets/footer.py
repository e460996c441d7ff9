"""The footer: the screens and the registry's actions with their keys. What it shows acts, by key or
by click."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual import events

from eagle_tui.actions import Action, actions_on
from eagle_tui.protocol import Status
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.keys import key_text
from eagle_tui.ui.verdict import active_phase

_ALWAYS = frozenset({"help", "quit", "back"})
_VOWELS = frozenset("aeiou")
_SHORTEST = 4
TWO_ROWS_FROM = 30
"""Height from which the screens may have a row of their own."""
_ACTIONS_LEAST = 6
"""Actions that must fit beside the screens' names, else the screens are numbers alone."""


@dataclass(frozen=True)
class Item:
    """One thing in the footer: a key, what it does, and the action done by a click."""

    key: str
    label: str
    action: str
    tight: bool = False
    """No space between key and label."""

    @property
    def width(self) -> int:
        return len(self.key) + len(self.label) + (1 if self.label and not self.tight else 0)


def footer_actions(
    screen: str, status: Status | None, readonly: bool, mode: str = ""
) -> list[Action]:
    """The actions worth a place on a screen now: pause or resume, whichever can act; none that
    would be refused because the screen is read-only. The screens' own keys are not among them;
    those of a replay come first."""
    held = False
    if status is not None:
        active = active_phase(status)
        held = active is not None and active.state in ("paused", "draining")
    hidden = {"pause"} if held else {"resume"}
    found = [
        action
        for action in actions_on(screen, mode)
        if (action.footer or screen in action.footer_of)
        and action.key
        and not action.opens
        and action.id not in hidden
        and not (readonly and action.verb)
    ]
    return sorted(found, key=lambda action: not action.modes)


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


def footer_rows(
    screens: Sequence[Action], actions: Sequence[Action], width: int, height: int
) -> list[list[Item]]:
    """The footer's one or two rows on a screen of that size.

    One row where all fits, else two where the screen is high, else one with the screens' names
    shortened, or only their numbers, so that the most important actions have room.
    """
    full = [Item(key_text(action.key or ""), action.label, action.id) for action in screens]
    short = [Item(item.key, shorten(item.label), item.action, tight=True) for item in full]
    numbers = [Item(item.key, "", item.action) for item in full]
    labels = {action.id: action.label for action in actions}
    for nav in (full, short, numbers):
        room = width - _wide(nav) - 1
        fitted = fit_labels(actions, room)
        whole = len(fitted) == len(actions) and all(labels[a.id] == text for a, text in fitted)
        enough = len(fitted) >= min(_ACTIONS_LEAST, len(actions))
        if whole or (nav is not full and enough) or nav is numbers:
            return [[*nav, *_items(fitted)]]
        if height >= TWO_ROWS_FROM and _wide(full) <= width:
            return [full, _items(fit_labels(actions, width))]
    raise AssertionError("the last form is always taken")


def _items(fitted: Sequence[tuple[Action, str]]) -> list[Item]:
    return [Item(key_text(action.key or ""), label, action.id) for action, label in fitted]


def _wide(items: Sequence[Item]) -> int:
    return sum(item.width for item in items) + max(len(items) - 1, 0) + 1


class KeyFooter(Canvas):
    """Keys and what they do; the screen in sight is marked."""

    DEFAULT_CSS = "KeyFooter { background: $panel; }"

    def __init__(self, screen_name: str) -> None:
        super().__init__()
        self._screen_name = screen_name
        self._status: Status | None = None
        self._places: list[tuple[int, int, int, str]] = []
        self._rows: list[list[Item]] = []
        self._rows_for: tuple[object, ...] = ()

    def show(self, status: Status) -> None:
        self._status = status
        self.redraw()

    def rows(self, width: int, height: int) -> list[list[Item]]:
        """What stands in the footer of a screen of that size."""
        app, active = self.eagle, active_phase(self._status) if self._status else None
        key = (width, height, active and active.state, app.readonly, app.mode, app.keymap)
        if self._rows_for != key:
            self._rows, self._rows_for = self._made(width, height), key
        return self._rows

    def _made(self, width: int, height: int) -> list[list[Item]]:
        here = actions_on(self._screen_name, self.eagle.mode)
        screens = self._with_keys(action for action in here if action.opens)
        app = self.eagle
        actions = footer_actions(self._screen_name, self._status, app.readonly, app.mode)
        return footer_rows(screens, self._with_keys(actions), width, height)

    def _with_keys(self, actions: Iterable[Action]) -> list[Action]:
        """The actions with the operator's own keys; those left without one have no place here."""
        return [action for action in map(self.eagle.keymap.of, actions) if action.key]

    def draw(self, width: int, height: int) -> Iterable[Line]:
        rows = self.rows(width, self.screen.size.height)
        if len(rows) != height:
            self.styles.height = len(rows)
        self._places = []
        for y, row in enumerate(rows):
            spare = width - _wide(row)
            gap = 2 if spare >= len(row) else 1
            pen = Pen().add(" ")
            for item in row:
                start = pen.width
                here = item.action == self._screen_name
                pen.add(item.key, self.palette.key)
                if item.label:
                    pen.add("" if item.tight else " ")
                    style = self.palette.strong + self.palette.cursor if here else None
                    pen.add(item.label, style or self.palette.text)
                elif here:
                    pen.segments[-1] = pen.segments[-1]._replace(
                        style=self.palette.key + self.palette.cursor
                    )
                self._places.append((y, start, pen.width, item.action))
                pen.add(" " * gap)
            yield pen.segments

    async def on_click(self, event: events.Click) -> None:
        for y, start, end, action_id in self._places:
            if event.y == y and start <= event.x < end:
                await self.screen.run_action(f"act('{action_id}')")
