"""Events and commands as one list of lines, newest last. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from eagle_tui import fmt
from eagle_tui.protocol import CommandState, CommandStatus, Event
from eagle_tui.records import JournalEntry
from eagle_tui.ui.canvas import Line, Pen
from eagle_tui.ui.glyphs import Glyphs
from eagle_tui.ui.palette import Palette
from eagle_tui.ui.wrap import safe_line

_TRAIL: dict[CommandState, tuple[CommandState, ...]] = {
    "requested": ("requested",),
    "accepted": ("requested", "accepted"),
    "in_effect": ("requested", "accepted", "in_effect"),
    "refused": ("requested", "refused"),
}
_SOURCE_WIDTH = 11
_SOURCE_FROM = 56
"""Width from which a line has room for the source."""
_TEXT_LEAST = 16
"""With less room than this for its text, a command's state is told by its glyph alone."""


@dataclass(frozen=True)
class Entry:
    """One line of the journal: something that happened, or an order and how far it came."""

    at: float
    state: str
    """An event's severity or a command's state: it gives glyph and colour."""
    source: str
    text: str
    trail: tuple[CommandState, ...] = ()


def entries(events: Iterable[Event], commands: Iterable[CommandStatus]) -> list[Entry]:
    """Both as entries in the order of time."""
    out = [Entry(event.at, event.severity, event.source, event.text) for event in events]
    out += [_command(command) for command in commands]
    return sorted(out, key=lambda entry: entry.at)


def entry_of(item: JournalEntry, newer: Mapping[str, CommandStatus]) -> Entry:
    """An entry of the stored journal; `newer` holds commands by id as they are now."""
    if item.event is not None:
        event = item.event
        return Entry(event.at, event.severity, event.source, event.text)
    assert item.command is not None
    return _command(newer.get(item.command.id, item.command))


def steps(command: CommandStatus, now: float) -> str:
    """How far a command came, and when: `requested 14:20:05 → accepted +0.1 s → in effect +2 s`."""
    words = [f"requested {fmt.moment(command.at, now)}"]
    last = command.at
    end = "refused" if command.state == "refused" else "in effect"
    for state, at in (("accepted", command.accepted_at), (end, command.effect_at)):
        if at is not None:
            words.append(f"{state} +{_seconds(at - last)}")
            last = at
    if command.state == "accepted":
        words.append("not in effect yet")
    elif command.effect_at is None:  # kept by an older program, which knew no times
        words.append(command.state.replace("_", " "))
    return " → ".join(words)


def _seconds(value: float) -> str:
    return f"{max(value, 0):.1f} s" if value < 10 else fmt.duration(value)


def command_text(verb: str, args: dict[str, Any]) -> str:
    """A command as one would type it: `cap b1_glaive tokens=10.0M`."""
    words = [verb]
    for name, value in args.items():
        if value is None or value is False:
            continue
        if value is True:
            words.append(name)
        elif name == "tokens" and isinstance(value, int):
            words.append(f"tokens={fmt.count(value)}")
        elif isinstance(value, list | tuple):
            words.append(" ".join(str(item) for item in value))
        elif isinstance(value, dict):
            words += [f"{key}={item}" for key, item in value.items()]
        else:
            words.append(str(value) if isinstance(value, str) else f"{name}={value}")
    return " ".join(words)


def one_line(entry: Entry, now: float, width: int, look: Palette, glyphs: Glyphs) -> Line:
    """The entry in one line of `width` cells."""
    pen = _head(entry, now, look, glyphs, source=width >= _SOURCE_FROM)
    trail = Pen()
    _trail(trail, entry, look, glyphs)
    # No more than can be seen is looked at: an event may quote a megabyte.
    text = safe_line(entry.text[: 2 * width])
    if width < _SOURCE_FROM and not entry.trail:
        text = f"{safe_line(entry.source[:width])}: {text}"
    room = width - pen.width - trail.width
    if cell_len(text) > room and entry.trail:
        trail = Pen().add(f" {glyphs.arrow} ", look.muted)
        trail.add(entry.trail[-1].replace("_", " "), look.state(entry.trail[-1]))
        if width - pen.width - trail.width < _TEXT_LEAST:
            trail = Pen()
        room = width - pen.width - trail.width
    pen.upto(text, room, look.text)
    pen.segments += trail.segments
    return pen.segments


def _command(command: CommandStatus) -> Entry:
    text = command_text(command.verb, command.args)
    more = command.reason or command.sentence
    if more:
        text = f"{text}: {more}"
    source = command.origin or "operator"
    return Entry(command.at, command.state, source, text, _TRAIL[command.state])


def _head(entry: Entry, now: float, look: Palette, glyphs: Glyphs, source: bool = True) -> Pen:
    pen = Pen().add(f" {fmt.moment(entry.at, now):<9} ", look.muted)
    pen.add(f"{glyphs.state(entry.state)} ", look.state(entry.state))
    if source:
        pen.cell(entry.source[: 2 * _SOURCE_WIDTH], _SOURCE_WIDTH, look.muted).add(" ")
    return pen


def _trail(pen: Pen, entry: Entry, look: Palette, glyphs: Glyphs) -> None:
    words: Sequence[CommandState] = entry.trail
    for index, state in enumerate(words):
        last = index == len(words) - 1
        pen.add("  " if index == 0 else f" {glyphs.arrow} ", look.muted)
        pen.add(state.replace("_", " "), look.state(state) if last else look.muted)
