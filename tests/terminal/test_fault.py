"""A fault in one panel does not take the screen away."""

from __future__ import annotations

from .rig import PLAIN, plain, screen

FAULTY = (
    PLAIN
    + """
from eagle_tui.ui.widgets.phases import PhaseStrip

def draw(self, width, height):
    raise KeyError("no such [/phase]")

PhaseStrip.draw = draw
app.run()
"""
)


def test_a_panel_that_cannot_be_drawn_says_so_and_the_rest_goes_on() -> None:
    with screen(FAULTY, ready="This panel cannot be drawn (KeyError('no such [/phase]'))") as shown:
        shown.read(1.0)
        text = plain(shown.seen).decode(errors="replace")
        assert "b8_sweagent" in text and "Detach" in text
        shown.press(b"q")
        shown.drain()
        assert shown.process.wait(timeout=60) == 0


FAULTY_LOAD = (
    PLAIN
    + """
from eagle_tui.ui.screens.overview import OverviewScreen

async def load(self):
    raise KeyError("no such [/row]")

OverviewScreen.load = load
app.run()
"""
)


def test_a_load_that_fails_is_told_and_the_screen_goes_on() -> None:
    with screen(FAULTY_LOAD, ready="This screen has a fault (KeyError") as shown:
        shown.press(b"q")
        shown.drain()
        assert shown.process.wait(timeout=60) == 0
