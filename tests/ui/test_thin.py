"""Thin output shows what the whole output shows: held against a small terminal of our own."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from tiny_terminal import Terminal

from eagle_tui.ui.thin import Thinner

WIDTH, HEIGHT = 24, 4
STYLES = st.sampled_from(
    ["", "1", "2;31", "1;38;2;1;2;3;48;2;9;9;9", "38;2;1;2;3;48;2;9;9;9", "38;5;7;48;5;1", "97;104",
     "7", "4;38;2;7;7;7", "48;2;9;9;9", "1;2;48;2;9;9;9"]
)  # fmt: skip
TEXTS = st.text("ab ab━⣿漢é\u0301🙂", min_size=1, max_size=10)
PIECES = st.tuples(
    st.integers(1, HEIGHT), st.integers(1, WIDTH), st.lists(st.tuples(STYLES, TEXTS), max_size=4)
)


def strip(piece: tuple[int, int, list[tuple[str, str]]]) -> str:
    """As Textual writes it: a place, then texts, each with its style and a reset; never beyond the
    right edge."""
    row, column, parts = piece
    said, room = f"\x1b[{row};{column}H", WIDTH + 1 - column
    for style, text in parts:
        while cell_len(text) > room:
            text = text[:-1]
        room -= cell_len(text)
        if cell_len(text[:1]) == 0:
            continue
        said += f"\x1b[{style}m{text}\x1b[0m" if style else text
    return said


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.lists(PIECES, min_size=1, max_size=4), st.integers(0, 9))))
def test_the_terminal_shows_the_same(
    frames: list[tuple[list[tuple[int, int, list[tuple[str, str]]]], int]],
) -> None:
    whole, thin, thinner = Terminal(), Terminal(), Thinner()
    for pieces, chance in frames:
        data = "\n".join(map(strip, pieces)) + "\x1b[1;1H"
        if chance == 0:
            thinner.forget()
        if chance == 1:
            data = "\x1b]2;title\x07" + data
        if chance == 2:
            data += "\x07"  # not understood: passed on as it is
        whole.write(data)
        thin.write(thinner.feed(data))
        assert whole.cells == thin.cells


def test_what_is_there_is_not_written_again() -> None:
    thinner = Thinner()
    line = (
        "\x1b[3;5H\x1b[38;2;1;2;3;48;2;4;5;6mspeed  \x1b[0m\x1b[1;38;2;1;2;3;48;2;4;5;6m{}\x1b[0m\n"
    )
    assert "speed" in thinner.feed(line.format("862 tok/s"))
    assert thinner.feed(line.format("862 tok/s")) == ""
    assert thinner.feed(line.format("871 tok/s")) == "\x1b[3;13H71"
    assert thinner.feed(line.format("8.1 tok/s")) == "\x1b[3;13H."
    thinner.forget()
    assert "speed" in thinner.feed(line.format("8.1 tok/s"))


def test_titles_change_no_cell_and_other_sequences_make_all_unknown() -> None:
    thinner = Thinner()
    line = "\x1b[2;1H\x1b[1mword\x1b[0m"
    thinner.feed(line)
    assert thinner.feed("\x1b]2;a title\x07" + line) == "\x1b]2;a title\x07"
    assert thinner.feed("\x1b[?25h") == "\x1b[m\x1b[?25h"
    assert thinner.feed(line) == "\x1b[2;1H\x1b[0;1mword"


def test_a_place_to_type_in_is_gone_to() -> None:
    thinner = Thinner()
    thinner.feed("\x1b[2;1Hword\x1b[1;1H")
    assert thinner.feed("\x1b[2;1Hword\x1b[4;7H") == "\x1b[4;7H"
    assert thinner.feed("\x1b[2;1Hword\x1b[4;7H") == ""
