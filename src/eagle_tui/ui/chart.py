"""Plotting as text: bars and zero-based charts in braille, block or ASCII. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eagle_tui.ui.glyphs import GlyphMode, Glyphs

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LEFT_DOTS = (0x00, 0x40, 0x44, 0x46, 0x47)
"""Braille bits of the left column with 0..4 dots filled from below; the right column's follow."""
_RIGHT_DOTS = (0x00, 0x80, 0xA0, 0xB0, 0xB8)
_NICE = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


def nice_top(highest: float) -> float:
    """The top of a zero-based axis: a round number not below `highest`."""
    if not math.isfinite(highest) or highest <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(highest))
    for factor in _NICE:
        if factor * unit >= highest * 0.9999:
            return factor * unit
    return 10 * unit


def columns_per_cell(mode: GlyphMode) -> int:
    """How many values one character cell shows side by side."""
    return 2 if mode == "braille" else 1


def area(
    values: Sequence[float | None], width: int, height: int, top: float, mode: GlyphMode
) -> list[str]:
    """A filled chart of `height` rows, the top row first, on a scale from 0 to `top`.

    `values` holds `width * columns_per_cell(mode)` numbers, the oldest first; None leaves a gap. A
    value above zero always shows at least one dot, so that "little" differs from "nothing".
    """
    if width <= 0 or height <= 0:
        return []
    per_cell = {"braille": 4, "block": 8, "ascii": 2}[mode]
    levels = [_level(value, top, height * per_cell) for value in values]
    rows = []
    for row in range(height):
        floor = (height - 1 - row) * per_cell
        fills = [min(max(level - floor, 0), per_cell) for level in levels]
        if mode == "braille":
            rows.append(
                "".join(
                    chr(0x2800 | _LEFT_DOTS[fills[x]] | _RIGHT_DOTS[fills[x + 1]])
                    for x in range(0, width * 2, 2)
                )
            )
        else:
            ramp = _BLOCKS if mode == "block" else " .#"
            rows.append("".join(ramp[fill] for fill in fills[:width]))
    return rows


def bar(share: float | None, width: int, glyphs: Glyphs) -> tuple[str, str]:
    """A horizontal bar: the filled part and the track, together `width` cells."""
    if width <= 0:
        return "", ""
    filled = min(max(share or 0.0, 0.0), 1.0) * width
    full = int(filled)
    half = glyphs.bar_half if filled - full >= 0.5 else ""
    if full == 0 and not half and share:
        half = glyphs.bar_half
    text = glyphs.bar_full * full + half
    return text, glyphs.bar_track * (width - len(text))


def _level(value: float | None, top: float, levels: int) -> int:
    if value is None or not math.isfinite(value) or value <= 0 or top <= 0:
        return 0
    return max(round(min(value / top, 1.0) * levels), 1)


def strip(
    values: Sequence[float | None], top: float, mode: GlyphMode
) -> list[tuple[str, float | None]]:
    """One row, a cell per value: its glyph by height, and the value's share of `top` for a colour.
    None: a gap, drawn as a dot. Cells of the same glyph and share (in per cent) are joined."""
    ramp = " .:|#" if mode == "ascii" else _BLOCKS
    found: list[tuple[str, float | None]] = []
    for value in values:
        share, text = None, "."
        if value is not None and math.isfinite(value) and top > 0:
            share = round(min(max(value / top, 0.0), 1.0), 2)
            text = ramp[_level(value, top, len(ramp) - 1)]
        elif mode != "ascii":
            text = "·"
        if found and found[-1][1] == share and found[-1][0][-1] == text:
            found[-1] = (found[-1][0] + text, share)
        else:
            found.append((text, share))
    return found
