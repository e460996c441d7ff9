"""The user's own keys: a TOML file of action ids and the keys that they get instead of ours.

    pause = "f5"
    resume = ["f6", "U"]
    down = false            # no key at all; the palette and the command stay

A bad entry is a sentence and leaves that action its own key: a typing error must not keep the
screen away, nor take a key from somebody who needs it now.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from textual.keys import Keys

from eagle_tui.actions import ACTIONS, Action
from eagle_tui.ui.keys import key_name, key_text

RESERVED = {
    "up": "move", "down": "move", "j": "move", "k": "move", "pageup": "move", "pagedown": "move",
    "space": "move", "home": "move", "end": "move", "tab": "move", "shift+tab": "move",
    "enter": "confirm", "ctrl+m": "confirm", "ctrl+c": "say how to leave", "ctrl+q": "detach",
    "ctrl+p": "open the palette", "ctrl+z": "suspend",
}  # fmt: skip
"""Keys that every screen needs for itself, and for what."""
_NAMED = frozenset(item.value for item in Keys) | {
    f"{mod}+{name}"
    for mod in ("shift", "ctrl", "alt", "ctrl+shift")
    for name in ("up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert",
                 "delete", *(f"f{n}" for n in range(1, 25)))
}  # fmt: skip
_PREFIXES = {"ctrl+b": "tmux", "ctrl+a": "GNU screen"}


@dataclass(frozen=True)
class Keymap:
    """Which keys act: the registry's, but for the actions in `changed`."""

    changed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Action id to its keys by Textual's names; () for none."""

    def keys(self, action: Action) -> tuple[str, ...]:
        """The keys of an action, the one to show first; () when it has none."""
        return self.changed.get(action.id, default_keys(action))

    def of(self, action: Action) -> Action:
        """The action with the keys that act here; `key` is None when it has none."""
        keys = self.keys(action)
        return replace(action, key=keys[0] if keys else None, more_keys=keys[1:])

    def bindings(self) -> dict[str, str]:
        """As `App.set_keymap` wants it. It cannot take a key away, so an action without one is
        given a name that no keyboard sends."""
        return {
            action_id: ",".join(keys) or f"no-key-{action_id}"
            for action_id, keys in self.changed.items()
        }


def default_keys(action: Action) -> tuple[str, ...]:
    """The registry's keys of an action."""
    return (action.key, *action.more_keys) if action.key else ()


def keymap_file() -> Path:
    """Where users put their keys."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "eagle-tui" / "keys.toml"


def load_keymap(
    path: Path | None = None, actions: Iterable[Action] = ACTIONS
) -> tuple[Keymap, list[str]]:
    """The user's keys and a sentence for each entry that is left out. No file: our own keys."""
    path = path or keymap_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Keymap(), []
    except (OSError, UnicodeDecodeError) as error:
        return Keymap(), [f"keys file {path} cannot be read: {error}; the usual keys act"]
    return parse_keymap(text, str(path), actions)


def parse_keymap(
    text: str, where: str, actions: Iterable[Action] = ACTIONS
) -> tuple[Keymap, list[str]]:
    """One keys file's text; `where` names it in the sentences."""
    try:
        body = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Keymap(), [f"keys file {where} is not valid TOML: {error}; the usual keys act"]
    known = {action.id: action for action in actions}
    wanted: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for action_id, value in body.items():
        if action_id not in known:
            near = _nearest(action_id, known)
            problems.append(f"keys file {where}: there is no action {action_id!r}{near}")
            continue
        keys, said = _keys(action_id, value, where)
        problems += said
        if keys is not None:
            wanted[action_id] = keys
    kept, clashes = _without_clashes(wanted, known, where)
    return Keymap(kept), problems + clashes


def _keys(action_id: str, value: Any, where: str) -> tuple[tuple[str, ...] | None, list[str]]:
    """The keys that an entry asks for; None, with the reason, when it cannot be meant."""
    if value is False:
        return (), []
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(key, str) for key in given):
        example = 'write a key such as "f5", a list of keys, or false for none'
        return None, [f"keys file {where}: {action_id} = {value!r} is no key; {example}"]
    keys, notes = [], []
    for word in given:
        key = key_name(word)
        if len(key_text(key)) != 1 and key not in _NAMED:
            near = _nearest(key, _NAMED)
            return None, [f"keys file {where}: {action_id}: there is no key {word!r}{near}"]
        if key in RESERVED:
            why = f"{word} is needed to {RESERVED[key]}; choose another"
            return None, [f"keys file {where}: {action_id}: {why}"]
        if key in _PREFIXES:
            notes.append(
                f"keys file {where}: {action_id}: inside {_PREFIXES[key]}, {key} does not reach us"
            )
        keys.append(key)
    return tuple(dict.fromkeys(keys)), notes


def _without_clashes(
    wanted: dict[str, tuple[str, ...]], known: Mapping[str, Action], where: str
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The entries that take no key from another action of the same screen. Entries are judged
    together, so that two actions can swap their keys; the later one of a pair gives way, and a
    changed action gives way to an unchanged one."""
    kept = dict(wanted)
    problems: list[str] = []
    while True:
        clash = _first_clash(kept, known)
        if clash is None:
            return kept, problems
        loser, winner, key = clash
        del kept[loser]
        problems.append(
            f"keys file {where}: {loser} cannot have {key_text(key)}: it is the key of {winner} on "
            f"the same screen; give {winner} another key first"
        )


def _first_clash(
    changed: dict[str, tuple[str, ...]], known: Mapping[str, Action]
) -> tuple[str, str, str] | None:
    keymap = Keymap(changed)
    for loser in reversed(changed):
        for action in known.values():
            if action.id == loser or not _meet(known[loser], action):
                continue
            both = set(changed[loser]) & set(keymap.keys(action))
            if both:
                return loser, action.id, min(both)
    return None


def _meet(one: Action, other: Action) -> bool:
    """Whether there is a screen on which both act."""
    return not one.screens or not other.screens or bool(set(one.screens) & set(other.screens))


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
