"""Key names as people read them, and the screen's own keys that are no actions of the registry."""

from __future__ import annotations

import string
import unicodedata

from textual.keys import KEY_NAME_REPLACEMENTS

LOCAL_KEYS: tuple[tuple[str, str], ...] = (
    ("↑ ↓  j k", "Select a dataset; keys such as c, n and s act on it."),
    ("PgUp PgDn", "Scroll the sample. Home and End go to its ends."),
    ("Tab", "In a dialog: go to the next field. ← → change a choice."),
    ("Enter  y", "In a dialog: do it."),
    ("Esc  q", "Leave a dialog or a screen without doing anything."),
    ("ctrl+p", "Command palette: every action by name, and the themes."),
    ("ctrl+q", "Detach, from any screen. The run goes on."),
    ("ctrl+z", "Suspend to the shell; `fg` comes back."),
)
"""Keys that move around and change nothing, for the help screen."""


def key_text(key: str) -> str:
    """A Textual key name as it is printed on the keyboard: `question_mark` is `?`."""
    *modifiers, last = key.split("+")
    return "+".join((*modifiers, _printed(last)))


def _printed(name: str) -> str:
    if name in _ASCII:
        return _ASCII[name]
    try:
        found = unicodedata.lookup(name.replace("_", " ").upper())
    except KeyError:
        return name
    # Unicode knows control characters and the blank by name, too.
    return found if found.isprintable() and not found.isspace() else name


def key_name(word: str) -> str:
    """The Textual name of a key as people write it: `?` is `question_mark`, `shift+m` is `M`, `Esc`
    is `escape`. A word that names no key comes back as it is, in lower case."""
    if len(word) == 1:
        if word.isalnum():
            return word
        name = unicodedata.name(word, word).replace("-", "_").replace(" ", "_").lower()
        return KEY_NAME_REPLACEMENTS.get(name, name)
    *modifiers, last = word.lower().replace("control", "ctrl").split("+")
    last = _SHORT.get(last, last)
    if modifiers == ["shift"] and len(last) == 1:
        return last.upper()
    return "+".join((*sorted(modifiers), key_name(last) if len(last) == 1 else last))


_SHORT = {
    "esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "pgdown": "pagedown",
    "del": "delete", "ins": "insert", "bs": "backspace",
}  # fmt: skip
_ASCII = {key_name(character): character for character in string.punctuation}
