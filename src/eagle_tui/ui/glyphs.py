"""Single-cell glyphs for states and bars, with an ASCII ladder for fonts that lack them.

No glyph here has an emoji presentation: terminals draw those two cells wide and shift the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GlyphMode = Literal["braille", "block", "ascii"]
"""How much the terminal's font can draw; braille charts need the most."""

_UNICODE = {
    "pending": "○", "blocked": "⊘", "running": "►", "paused": "‖", "draining": "▽",
    "stalled": "‼", "failed": "✗", "done": "✓", "stale": "↻",
    "capped": "⊤", "skipped": "»",
    "stopped": "○", "starting": "▽", "ready": "●", "unready": "‼", "stopping": "▽", "attached": "●",
    "info": "·", "warning": "▲", "error": "✗", "ok": "●",
    "requested": "○", "accepted": "►", "in_effect": "✓", "refused": "✗",
}  # fmt: skip
_ASCII = {
    "pending": ".", "blocked": "#", "running": ">", "paused": "=", "draining": "v",
    "stalled": "!", "failed": "x", "done": "+", "stale": "~",
    "capped": "T", "skipped": "-",
    "stopped": ".", "starting": "v", "ready": "*", "unready": "!", "stopping": "v", "attached": "*",
    "info": "-", "warning": "!", "error": "x", "ok": "*",
    "requested": ".", "accepted": ">", "in_effect": "+", "refused": "x",
}  # fmt: skip


@dataclass(frozen=True)
class Glyphs:
    """What one mode draws."""

    mode: GlyphMode
    bar_full: str
    bar_half: str
    """The half-filled cell; empty where the mode has none."""
    bar_track: str
    arrow: str
    separator: str
    ellipsis: str
    folded: str
    unfolded: str
    rule: str
    mark: str
    """A moment marked on a chart."""

    def state(self, name: str) -> str:
        """The glyph of a phase, dataset, server, command or alert state."""
        return (_ASCII if self.mode == "ascii" else _UNICODE).get(name, "?")


def glyph_set(mode: GlyphMode, colors: bool = True) -> Glyphs:
    """The glyph set of a mode. Without colours, a bar's track must differ from the bar by shape."""
    if mode == "ascii":
        return Glyphs(mode, "=", "", "-", ">", ">", "~", "+", "-", "-", ":")
    track = "━" if colors else "·"
    return Glyphs(mode, "━", "╸", track, "→", "▸", "…", "▸", "▾", "─", "┊")


_TO_ASCII = str.maketrans("–→≤…·°←↑↓±×", "-><~. <^v~x")


def ascii_text(text: str) -> str:
    """Our own words with ASCII punctuation; what others wrote keeps its letters."""
    return text.translate(_TO_ASCII)
