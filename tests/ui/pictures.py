"""Pictures of screens as text and styles, of recorded runs on a clock that stands still.

A picture is written as the screen's text, and for each theme which cells have which style. One app
shows all the screens of a run at all sizes and in all themes, so that a picture costs a layout and
no start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import groupby
from typing import Any

from rich.style import Style
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Input

from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.charted import ChartedScreen

Size = tuple[int, int]
SMALL, LARGE, NARROW, HUGE = (80, 24), (200, 50), (60, 20), (300, 80)
SIZES = (SMALL, LARGE, NARROW)
"""The smallest that is promised whole, a usual one, and half a split tmux window, where least fits:
each has a layout of its own."""
THEMES = ("eagle-dark", "eagle-light", "eagle-ansi")
LASTING = ("poll", "themes")
"""Groups of workers that never end."""
LONGEST_S = 60.0


@dataclass(frozen=True)
class Shot:
    """One screen: the keys that lead to it and away again, and what it shows when it is whole."""

    name: str
    keys: tuple[str, ...]
    shows: Callable[[Any, str], bool]
    """Of the app and the screen's text."""
    back: tuple[str, ...] = ()
    sizes: Sequence[Size] = SIZES
    themes: Sequence[str] = THEMES


@dataclass
class Picture:
    """The same screen and size in several themes."""

    text: str
    styles: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"== {theme}\n{styles}" for theme, styles in self.styles.items()]
        return "\n".join([self.text, *parts]) + "\n"


def rows(app: EagleApp) -> list[Strip]:
    """What is on the screen, all that lies on it included."""
    return app.screen._compositor.render_strips()


def text_of(strips: Sequence[Strip]) -> str:
    """Line by line, without the blanks at their ends."""
    return "\n".join(strip.text.rstrip() for strip in strips)


def style_words(style: Style | None) -> str:
    """Attributes and colours, without what a terminal does not show (links to actions)."""
    if style is None:
        return "-"
    words = [
        name
        for name in ("bold", "dim", "italic", "underline", "reverse", "strike", "blink")
        if getattr(style, name)
    ]
    for word, color in (("", style.color), ("on ", style.bgcolor)):
        words.append(f"{word}{color.name}" if color is not None else f"{word}-")
    return " ".join(words)


def _numbers() -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    yield from letters
    for first in letters:
        yield from (first + second for second in letters)


def styles_of(strips: Sequence[Strip]) -> str:
    """First which letter stands for which style, then the cells of each row: `a12 b3` are twelve
    cells of style a and three of b. Rows that are alike stand together."""
    numbers, names = _numbers(), dict[str, str]()
    lines: list[str] = []
    for strip in strips:
        cells = [
            (words, sum(segment.cell_length for segment in run))
            for words, run in groupby(strip, lambda segment: style_words(segment.style))
        ]
        for words, _ in cells:
            if words not in names:
                names[words] = next(numbers)
        lines.append(" ".join(f"{names[words]}{length}" for words, length in cells if length))
    out = [f"{letter}: {words}" for words, letter in names.items()]
    at = 1
    for line, alike in groupby(lines):
        count = len(list(alike))
        out.append(f"{at}-{at + count - 1}| {line}" if count > 1 else f"{at}| {line}")
        at += count
    return "\n".join(out)


async def settled(pilot: Pilot[None], shows: Callable[[Any, str], bool]) -> list[Strip]:
    """Wait until the screen shows what it should, nothing is being fetched, and it stays as it is;
    gives its rows."""
    app = pilot.app
    assert isinstance(app, EagleApp)
    before: list[Strip] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LONGEST_S
    while True:
        for line in app.screen.query(Input):
            line.cursor_blink = False
        await pilot.pause()
        found = rows(app)
        if not _busy(app) and shows(app, text_of(found)) and found == before:
            return found
        before = found
        assert loop.time() < deadline, f"this is not what was to be shown:\n{text_of(found)}"


def _busy(app: EagleApp) -> bool:
    screen = app.screen
    if isinstance(screen, ChartedScreen) and app.past.lacks(screen.metrics()):
        return True
    return any(not work.is_finished and work.group not in LASTING for work in app.workers)


async def take(
    app: EagleApp, shots: Sequence[Shot], found: dict[tuple[str, Size], Picture]
) -> None:
    """Take the pictures in an app that is not running yet, into `found` by name and size."""
    sizes = list(dict.fromkeys(size for shot in shots for size in shot.sizes))
    async with app.run_test(size=sizes[0]) as pilot:
        await settled(pilot, lambda app, _: app.frame is not None)
        for size in sizes:
            await pilot.resize_terminal(*size)
            for shot in shots:
                if size not in shot.sizes:
                    continue
                await pilot.press(*shot.keys)
                found[shot.name, size] = await _in_all_themes(pilot, shot)
                await pilot.press(*shot.back)


async def _in_all_themes(pilot: Pilot[None], shot: Shot) -> Picture:
    app = pilot.app
    assert isinstance(app, EagleApp)
    picture = Picture("")
    for theme in shot.themes:
        app.set_theme(theme)
        strips = await settled(pilot, shot.shows)
        text = text_of(strips)
        picture.text = picture.text or text
        other = "\n".join(unified_diff(picture.text.splitlines(), text.splitlines()))
        assert not other, f"{shot.name} has another text in {theme}:\n{other}"
        picture.styles[theme] = styles_of(strips)
    return picture
