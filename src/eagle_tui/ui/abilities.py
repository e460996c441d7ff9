"""What a terminal can draw, judged from its environment: colours and characters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast, get_args

from eagle_tui.ui.glyphs import GlyphMode

ColorDepth = Literal["truecolor", "256", "16", "none"]
COLOR_DEPTHS: tuple[ColorDepth, ...] = get_args(ColorDepth)
COLOR_SYSTEMS = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": "standard"}
"""Rich's name for each. Without colours, bold and reversed text must still be sent, which Rich
leaves out when it is told that there is no colour system; the colours are taken out elsewhere."""
_TRUECOLOR_TERMS = ("-direct", "-kitty", "alacritty", "foot", "wezterm", "-ghostty", "contour")
"""Terminals that say so by TERM alone: COLORTERM does not pass SSH."""
_MONO_TERMS = ("", "dumb", "unknown", "vt52", "vt100", "vt102", "vt220")
_PLAIN_TERMS = (*_MONO_TERMS, "linux", "cons25", "sun")
"""Consoles whose fonts hold few characters beyond ASCII."""


def color_depth(environ: Mapping[str, str], asked: ColorDepth | None = None) -> ColorDepth:
    """How many colours to use: what was asked for, else what NO_COLOR, COLORTERM and TERM say."""
    if asked is not None:
        return asked
    if environ.get("NO_COLOR"):
        return "none"
    term = environ.get("TERM", "").lower()
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    if term in _MONO_TERMS:
        return "none"
    if any(part in term for part in _TRUECOLOR_TERMS):
        return "truecolor"
    return "256" if "256color" in term else "16"


def glyph_mode(environ: Mapping[str, str]) -> GlyphMode:
    """Which characters to draw with: what EAGLE_TUI_GLYPHS says, ASCII where the locale or the
    console has no more, else braille charts."""
    asked = environ.get("EAGLE_TUI_GLYPHS", "")
    if asked in get_args(GlyphMode):
        return cast(GlyphMode, asked)
    if environ.get("TERM", "").lower() in _PLAIN_TERMS or not speaks_utf8(environ):
        return "ascii"
    return "braille"


def speaks_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the locale is one of UTF-8. No locale at all counts as one: containers set none, and
    the terminal in front of them speaks UTF-8 all the same."""
    names = (environ.get(key) for key in ("LC_ALL", "LC_CTYPE", "LANG"))
    name = next((name for name in names if name), "")
    return not name or "utf8" in name.lower().replace("-", "")


def default_theme(depth: ColorDepth, configured: str) -> str:
    """The configured theme, or, where its colours cannot be shown, the one of the terminal's own
    sixteen colours."""
    return "eagle-ansi" if depth in ("16", "none") else configured
