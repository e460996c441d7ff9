"""Reading and changing flags in a command line. Pure; no shell is ever involved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from eagle_tui.config.command import FALSE, TRUE
from eagle_tui.supervisor.tuning.flags import Flags, plain
from eagle_tui.supervisor.tuning.settings import BY_NAME, setting

MANY = 1000
NUMBER = re.compile(r"-[\d.]")


def main_name(name: str, flags: Flags | None) -> str:
    """The one name under which all spellings of a flag are the same."""
    name = plain(name)
    if known := BY_NAME.get(name):
        return known.key
    found = flags.get(name) if flags else None
    if found is None:
        return name
    main = next((BY_NAME[n].key for n in found.names if n in BY_NAME), found.names[0])
    return main


def is_switch(name: str, flags: Flags | None) -> bool | None:
    """Whether the flag stands alone, without a value; None: not known."""
    if flags and (found := flags.get(name)):
        return not found.takes_value
    if known := setting(name):
        return known.kind == "bool"
    return None


def apply(
    argv: Sequence[str], changes: Mapping[str, str | None], flags: Flags | None = None
) -> list[str]:
    """The command line with the changes made: None takes a flag away, `true` sets a switch, and
    `false` takes it away. `--flag value` and `--flag=value`, `-` and `_`, and other names of the
    same flag (as far as `flags` tells) are all replaced."""
    words = list(argv)
    for key, value in changes.items():
        words = _apply_one(words, key, value, flags)
    return words


def value_of(argv: Sequence[str], name: str, flags: Flags | None = None) -> str | None:
    """What a flag is set to; `true` for a switch, None when it is not there. The last one counts,
    as for argparse."""
    found = _places(argv, name, flags)
    if not found:
        return None
    start, end = found[-1]
    _, equals, value = argv[start].partition("=")
    return value if equals else " ".join(argv[start + 1 : end]) or "true"


def _apply_one(words: list[str], key: str, value: str | None, flags: Flags | None) -> list[str]:
    places = _places(words, key, flags)
    at = places[0][0] if places else len(words)
    gone = {i for start, end in places for i in range(start, end)}
    new: list[str] = []
    if value is not None:
        new = _words(key, value, flags)
    before = [w for i, w in enumerate(words[:at]) if i not in gone]
    after = [w for i, w in enumerate(words[at:], at) if i not in gone]
    return before + new + after


def _words(key: str, value: str, flags: Flags | None) -> list[str]:
    found = flags.get(key) if flags else None
    name = plain(key)
    if found is None and (known := setting(name)):
        name = known.key
    elif found is not None and name not in found.names:
        name = next((n for n in found.names if len(n) > 1), name)
    switch = is_switch(key, flags)
    if switch or (switch is None and value.lower() in (*TRUE, *FALSE)):
        if value.lower() not in FALSE:
            return [f"--{name}"]
        # A switch that is on by default has a name that turns it off.
        off = f"no-{name}"
        return [f"--{off}"] if found and off in found.names else []
    return [f"--{name}", *(value.split() if found and found.many else [value])]


def _places(argv: Sequence[str], name: str, flags: Flags | None) -> list[tuple[int, int]]:
    """Where the flag stands: from its word to after its last value."""
    wanted = main_name(name, flags)
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(argv):
        word, equals, _ = argv[at].partition("=")
        if not word.startswith("--") or main_name(word, flags) != wanted:
            at += 1
            continue
        end = at + 1
        for _ in range(0 if equals else _values(word, flags)):
            if end == len(argv) or _is_flag(argv[end]):
                break
            end += 1
        found.append((at, end))
        at = end
    return found


def _values(word: str, flags: Flags | None) -> int:
    """How many words of value the flag may have at most."""
    switch = is_switch(word, flags)
    known = flags.get(word) if flags else None
    if switch:
        return 0
    return MANY if switch is None or (known and known.many) else 1


def _is_flag(word: str) -> bool:
    """Whether argparse takes the word for a flag; negative numbers are values."""
    return word.startswith("-") and not NUMBER.match(word)
