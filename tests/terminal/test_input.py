"""Keys as a terminal really sends them: several in one read, and rubbish among them."""

from __future__ import annotations

import time
from pathlib import Path

from .rig import PLAIN, RUN_NAME, Screen, plain, screen

FIELD = (
    PLAIN
    + """
import json
from textual.widgets import Input

def tell():
    found = app.screen.query(Input)
    text = found.first().value if found else None
    notes = [n.message for n in app._notifications]
    Path(sys.argv[2]).write_text(json.dumps([type(app.screen).__name__, text, notes]))

begin = app.start
app.start = lambda: (begin(), app.set_interval(0.05, tell))
app.run()
"""
)


def told(path: Path, wanted: str, shown: Screen, seconds: float = 60.0) -> str:
    """Wait until the program's report holds `wanted`; gives the report."""
    deadline = time.monotonic() + seconds
    text = ""
    while wanted not in text and time.monotonic() < deadline:
        shown.read(0.05)
        text = path.read_text() if path.exists() else ""
    assert wanted in text, text
    return text


def test_editing_keys_and_letters_of_one_read_are_obeyed_in_order(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with screen(FIELD, str(report)) as shown:
        shown.press(b"c")
        told(report, '"ActionDialog", ""', shown)
        shown.press(b"12")
        told(report, '"12"', shown)
        shown.press(b"\x7f5")  # Backspace, 5
        told(report, '"15"', shown)
        shown.press(b"\x7f\x7f78\x1b[H1")  # Backspace twice, 78, Home, 1
        told(report, '"178"', shown)
        shown.press(b"\x15" + b"9\x1b[D8")  # ctrl+u (what is left of the cursor), 9, left, 8
        told(report, '"8978"', shown)


def test_rubbish_on_the_line_is_lost_and_nothing_else(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with screen(FIELD, str(report)) as shown:
        for rubbish in (
            b"\xff\xfe\xc3(",  # no UTF-8
            b"\x1b[99999999999;1u",  # a character that cannot be
            b"\x1b[<99999;99999;99999M",  # a click far outside
            b"\x1b]0;title\x07\x1bP1$r0m\x1b\\",  # answers that nobody asked for
            bytes(range(0x80, 0x100)),
        ):
            shown.press(rubbish)
            shown.read(0.3)
            assert shown.process.poll() is None, shown.seen[-2000:]
            shown.press(b"\x1b")  # leaves whatever the rubbish may have opened
            shown.read(0.3)
        for _ in range(3):
            shown.press(b"q")  # from wherever it got to, back to the first screen
            if shown.process.poll() is not None:
                break
            shown.drain(3)
        assert shown.process.wait(timeout=60) == 0


def test_keys_typed_ahead_act_on_the_screen_that_the_keys_before_them_open(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with screen(FIELD, str(report)) as shown:
        shown.press(b"c1500")  # the cap dialog, and a number in it, all in one read
        told(report, '"ActionDialog", "1500"', shown)
        shown.press(b"\x1b")
        told(report, '"OverviewScreen"', shown)
        shown.press(b"\x10them")  # the palette, and a word in it: t and h alone would be orders
        told(report, 'Palette", "them"', shown)
        shown.press(b"\x1b")
        told(report, '"OverviewScreen"', shown)
        shown.press(b"?qn")  # help, back, and the dialog of requests in flight
        told(report, '"ActionDialog", ""', shown)
        shown.press(b"7\t\x7f")  # a letter, the next field, which has nothing to delete
        told(report, '"ActionDialog", "7"', shown)


def test_the_screen_is_drawn_anew_by_order() -> None:
    with screen() as shown:
        shown.read(2.0)  # all of it is there
        again = shown.react(b"\x0c")  # ctrl+l
        assert RUN_NAME.encode() in plain(again), "what something else wrote over stays there"
