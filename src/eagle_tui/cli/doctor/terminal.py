"""What this terminal can do for the screens: colours, characters, size, copying."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from rich.cells import cell_len

from eagle_tui.cli.doctor import probe, tmux
from eagle_tui.cli.doctor.findings import Finding
from eagle_tui.ui.abilities import color_depth, glyph_mode, speaks_utf8

LEAST_SIZE = (60, 20)
DARK_BELOW = 128
"""Luma of the ground below which a terminal is a dark one."""
_SHELL = "your shell's start-up file"
_DEPTH_WORDS = {
    "truecolor": "24-bit",
    "256": "256 colours: themes are drawn with the nearest ones",
    "16": "16 colours: the theme eagle-ansi is used",
    "none": "none: states are told by words, glyphs, bold and reversed text",
}


@dataclass(frozen=True)
class Facts:
    """All that the judgement needs."""

    environ: Mapping[str, str]
    size: tuple[int, int]
    """Columns and rows."""
    interactive: bool
    answers: probe.Answers | None = None
    tmux: tmux.Tmux | None = None
    tmux_problem: str = ""


def gather(environ: Mapping[str, str]) -> Facts:
    """Look at the terminal of this process, and at the tmux around it."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    answers = None
    if interactive:
        try:
            answers = probe.ask(sys.stdin.fileno(), sys.stdout.fileno())
        except OSError:
            interactive = False
    around, problem = None, ""
    if environ.get("TMUX"):
        try:
            around = tmux.look()
        except OSError as error:
            problem = str(error)
    return Facts(environ, _size_now(), interactive, answers, around, problem)


def _size_now() -> tuple[int, int]:
    """The terminal's own size; COLUMNS and LINES may be what another terminal had."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size()
    return size.columns, size.lines


def findings(facts: Facts) -> list[Finding]:
    """Everything worth saying, tmux last. Pure."""
    found = [_terminal(facts), _size(facts), _colors(facts), *_characters(facts)]
    found += _drawing(facts)
    if facts.tmux is not None:
        found += tmux.findings(facts.tmux, facts.environ)
    elif facts.environ.get("TMUX"):
        found.append(Finding("lack", "tmux", f"it cannot be asked: {facts.tmux_problem}"))
    elif facts.environ.get("STY"):
        found.append(
            Finding("lack", "GNU screen", "tmux passes on colours, focus and copying better")
        )
    elif facts.environ.get("SSH_CONNECTION"):
        found.append(
            Finding(
                "lack",
                "SSH without tmux",
                "the screen ends with the connection (the run does not); tmux keeps it",
                ("tmux new -A -s eagle",),
            )
        )
    return found


def _terminal(facts: Facts) -> Finding:
    if not facts.interactive:
        return Finding(
            "bad",
            "terminal",
            "input or output is no terminal: the screens need one; `eagle-tui status` does not",
        )
    name = facts.answers.name if facts.answers else None
    term = facts.environ.get("TERM", "")
    detail = f"TERM={term or 'not set'}" + (f", says it is {name}" if name else "")
    if not term or term in ("dumb", "unknown"):
        return Finding(
            "bad",
            "terminal",
            f"{detail}: the screens move the cursor, which such a terminal cannot",
            ("export TERM=xterm-256color",),
            _SHELL,
        )
    if facts.answers is not None and not facts.answers.answered:
        return Finding("lack", "terminal", f"{detail}; it answers no questions")
    return Finding("ok", "terminal", detail)


def _size(facts: Facts) -> Finding:
    columns, rows = facts.size
    detail = f"{columns}×{rows}"
    if columns < LEAST_SIZE[0] or rows < LEAST_SIZE[1]:
        least = f"{LEAST_SIZE[0]}×{LEAST_SIZE[1]}"
        return Finding("lack", "size", f"{detail}: panels are left out below {least}; enlarge it")
    return Finding("ok", "size", detail)


def _colors(facts: Facts) -> Finding:
    depth = color_depth(facts.environ)
    words = _DEPTH_WORDS[depth]
    if facts.environ.get("NO_COLOR"):
        return Finding("ok", "colours", f"{words} (NO_COLOR is set)")
    kept = facts.answers.rgb if facts.answers else None
    if depth == "truecolor" or facts.tmux is not None:
        # What tmux passes on is judged there.
        return Finding("ok", "colours", words)
    if kept:
        return Finding(
            "lack",
            "colours",
            f"{words}; but the terminal shows 24-bit colour",
            ("export COLORTERM=truecolor",),
            _SHELL,
        )
    if depth == "256":
        return Finding("ok", "colours", words)
    return Finding(
        "lack", "colours", f"{words}; if it has more", ("export TERM=xterm-256color",), _SHELL
    )


def _characters(facts: Facts) -> list[Finding]:
    mode = glyph_mode(facts.environ)
    wrong = {}
    if facts.answers is not None:
        wrong = {
            glyph: cells
            for glyph, cells in facts.answers.widths.items()
            if cells != cell_len(glyph)
        }
    if not speaks_utf8(facts.environ):
        detail = "the locale is not one of UTF-8: everything is drawn in ASCII"
        return [Finding("lack", "characters", detail, ("export LC_ALL=C.UTF-8",), _SHELL)]
    if wrong:
        said = ", ".join(f"{glyph} takes {cells} cells" for glyph, cells in wrong.items())
        return [
            Finding(
                "lack",
                "characters",
                f"{said} instead of 1: lines would not align; draw in ASCII, or set the terminal "
                "to UTF-8 and ambiguous width to narrow",
                ("export EAGLE_TUI_GLYPHS=ascii",),
                _SHELL,
            )
        ]
    detail = "ASCII" if mode == "ascii" else f"UTF-8, charts in {mode}"
    if facts.answers is not None and facts.answers.widths:
        detail += "; every glyph takes the cells that it should"
    return [Finding("ok", "characters", detail)]


def _drawing(facts: Facts) -> list[Finding]:
    answers = facts.answers
    if answers is None or not answers.answered:
        return []
    found = []
    if answers.sync:
        found.append(Finding("ok", "frames", "drawn at once (mode 2026)"))
    else:
        found.append(Finding("ok", "frames", "may be seen being drawn; little is repainted"))
    if answers.ground is not None:
        red, green, blue = answers.ground
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < DARK_BELOW
        kind, theme = ("dark", "eagle-dark") if dark else ("light", "eagle-light")
        found.append(Finding("ok", "ground", f"{kind}: theme {theme} fits (--theme, ctrl+p)"))
    return found


def here() -> list[Finding]:
    """The findings for the terminal of this process."""
    return findings(gather(os.environ))
