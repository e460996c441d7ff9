"""Which colours and modes really reach the terminal."""

from __future__ import annotations

import re

import pytest

from .rig import PLAIN, SCENES, plain, screen

COLORED = f"""
import sys
from pathlib import Path
from eagle_tui.ui.abilities import default_theme
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.recorded import RecordedClient
client = RecordedClient.load(Path({str(SCENES / "kimi.json")!r}))
depth, mouse = sys.argv[2], sys.argv[3] == "mouse"
theme = default_theme(depth, "eagle-dark")
EagleApp(client, color=depth, theme=theme, mouse=mouse, keys_file=Path("/nonexistent")).run()
"""
_SGR = re.compile(rb"\x1b\[([\d;]*)m")


def colors(data: bytes) -> set[str]:
    """The kinds of colour in what was written: truecolor, 256, 16."""
    found = set()
    for match in _SGR.finditer(data):
        codes = [int(code) for code in match[1].split(b";") if code]
        while codes:
            code = codes.pop(0)
            if code in (38, 48):
                kind = codes.pop(0)
                found.add("truecolor" if kind == 2 else "256")
                del codes[: 3 if kind == 2 else 1]
            elif 30 <= code <= 37 or 40 <= code <= 47 or 90 <= code <= 97 or 100 <= code <= 107:
                found.add("16")
    return found


@pytest.mark.parametrize(
    ("depth", "allowed"),
    [
        ("truecolor", {"truecolor"}),
        ("256", {"256", "16"}),
        ("16", {"16"}),
        ("none", set()),
    ],
)
def test_no_more_colours_than_asked_for(depth: str, allowed: set[str]) -> None:
    with screen(COLORED, depth, "mouse", ready="Detach") as shown:
        for keys, words in ((b"c", "next field"), (b"q?", "Stop run"), (b"q\x10", "Change set")):
            shown.press(keys)  # a dialog, help, the palette
            shown.until(words)
        assert colors(shown.seen) <= allowed
        if depth != "none":
            assert colors(shown.seen), "there is colour at all"
        else:
            # What is selected is told by reversed text.
            assert re.search(rb"\x1b\[(\d+;)*7(;\d+)*m", shown.seen)


@pytest.mark.parametrize("mouse", ["mouse", "no-mouse"])
def test_the_mouse_is_asked_for_only_when_wanted(mouse: str) -> None:
    with screen(COLORED, "256", mouse) as shown:
        shown.read(0.5)
        modes = re.findall(rb"\x1b\[\?(1000|1002|1003|1006|1015|1016)h", shown.seen)
        assert bool(modes) == (mouse == "mouse")


ASCII = (
    PLAIN.replace("keys_file=", 'glyphs_mode="ascii", keys_file=')
    + """
begin = app.start
def told():
    begin()
    app.notify("a note", markup=False)
    app.notify("a fault", severity="error", markup=False)
app.start = told
app.run()
"""
)


def test_in_ascii_nothing_else_is_drawn() -> None:
    """Not on any screen, nor in dialogs, notes and the palette. What others wrote may hold more."""
    foreign = set((SCENES / "kimi.json").read_text()) - set("→–…·°")
    with screen(ASCII, size=(130, 45), ready="Detach") as shown:
        keys = (b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"1", b"?", b"q", b"c", b"\x1b", b"\x10")
        for key in (*keys, b"\x1b[B", b"\x1b"):
            shown.react(key)
        drawn = plain(shown.seen).decode("utf-8", "replace")
        assert {character for character in drawn if not character.isascii()} <= foreign
        assert "+-" in drawn, "frames are drawn all the same"
