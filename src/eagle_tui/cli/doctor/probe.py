"""Asks the terminal itself: what it answers is worth more than what TERM promises.

All questions go out in one write, the last one being Primary Device Attributes, which every
terminal answers; when that answer is there, nothing more will come. A terminal that answers nothing
costs one second.
"""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty
from dataclasses import dataclass, field

ANSWER_S = 1.0
GLYPHS = ("━", "⣿", "►", "✓", "▲", "‼", "…")
"""One of each kind that the screens draw: bars, charts, states, an ambiguous one, punctuation."""

_VERSION = "\x1b[>0q"
_SYNC = "\x1b[?2026$p"
_GROUND = "\x1b]11;?\x1b\\"
_RGB = "\x1b[48;2;1;2;3m\x1bP$qm\x1b\\\x1b[m"
_ATTRIBUTES = "\x1b[c"
_REPORT = "\x1b[6n"


@dataclass(frozen=True)
class Answers:
    """What the terminal said. None: it did not answer that."""

    name: str | None = None
    """Its own name and version (XTVERSION)."""
    sync: bool | None = None
    """Whether it draws frames at once (mode 2026)."""
    ground: tuple[int, int, int] | None = None
    """Its background colour, 0..255 each."""
    rgb: bool | None = None
    """Whether it kept a 24-bit colour that it was given (DECRQSS)."""
    widths: dict[str, int] = field(default_factory=dict)
    """Cells that each of `GLYPHS` took."""
    answered: bool = False
    """Whether it answered at all."""


def questions() -> str:
    """What is written to the terminal. The glyphs are drawn on the current line and wiped."""
    drawn = "".join(f"\r{glyph}{_REPORT}" for glyph in GLYPHS)
    return drawn + "\r\x1b[K" + _VERSION + _SYNC + _GROUND + _RGB + _ATTRIBUTES


def understand(text: str) -> Answers:
    """The answers in what the terminal sent back."""
    columns = [int(column) for column in re.findall(r"\x1b\[\d+;(\d+)R", text)]
    widths = {
        glyph: column - 1 for glyph, column in zip(GLYPHS, columns, strict=False) if column > 1
    }
    name = re.search(r"\x1bP>\|([^\x1b\x07]*)", text)
    sync = re.search(r"\x1b\[\?2026;(\d)\$y", text)
    ground = re.search(r"\x1b\]11;rgb:([0-9a-fA-F]+)/([0-9a-fA-F]+)/([0-9a-fA-F]+)", text)
    rgb = re.search(r"\x1bP([01])\$r([^\x1b]*)", text)
    kept = None if rgb is None else rgb[1] == "1" and bool(re.search(r"48[:;]2\b.*1.2.3", rgb[2]))
    return Answers(
        name=name[1] if name else None,
        sync=None if sync is None else sync[1] in ("1", "2", "3"),
        ground=_color(ground) if ground else None,
        rgb=kept,
        widths=widths,
        answered=bool(re.search(r"\x1b\[\?[\d;]*c", text)),
    )


def ask(fd_in: int, fd_out: int, wait_s: float = ANSWER_S) -> Answers:
    """Ask the terminal at these file descriptors. Restores its mode; OSError when it is none."""
    try:
        before = termios.tcgetattr(fd_in)
    except termios.error as error:
        raise OSError(str(error)) from error
    try:
        tty.setraw(fd_in, termios.TCSAFLUSH)
        os.write(fd_out, questions().encode("utf-8"))
        return understand(_read(fd_in, wait_s))
    finally:
        termios.tcsetattr(fd_in, termios.TCSAFLUSH, before)


def _read(fd: int, wait_s: float) -> str:
    said = b""
    deadline = time.monotonic() + wait_s
    while (left := deadline - time.monotonic()) > 0 and not re.search(rb"\x1b\[\?[\d;]*c", said):
        if select.select([fd], [], [], left)[0]:
            data = os.read(fd, 4096)
            if not data:
                break
            said += data
    return said.decode("utf-8", "replace")


def _color(match: re.Match[str]) -> tuple[int, int, int]:
    """X11's rgb:hhhh/hhhh/hhhh, of one to four digits each, as 0..255."""
    red, green, blue = (
        round(int(part, 16) * 255 / (16 ** len(part) - 1)) for part in match.groups()
    )
    return red, green, blue
