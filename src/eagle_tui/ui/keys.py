"""Key names as people read them, and the screen's own keys that are no actions of the registry."""

from __future__ import annotations

import unicodedata

LOCAL_KEYS: tuple[tuple[str, str], ...] = (
    ("↑ ↓  j k", "Select a dataset; keys such as c, n and s act on it."),
    ("PgUp PgDn", "Scroll the sample. Home and End go to its ends."),
    ("Tab", "In a dialog: go to the next field. ← → change a choice."),
    ("Enter  y", "In a dialog: do it."),
    ("Esc  q", "Leave a dialog or a screen without doing anything."),
    ("ctrl+p", "Command palette: every action by name, and the themes."),
)
"""Keys that move around and change nothing, for the help screen."""


def key_text(key: str) -> str:
    """A Textual key name as it is printed on the keyboard: `question_mark` is `?`."""
    try:
        return unicodedata.lookup(key.replace("_", " ").upper())
    except KeyError:
        return key
