"""Theme files: the package's own and the user's, read from TOML and made into Textual themes.

A theme file holds `name`, `dark` and a table `[colors]` with every name of `COLORS`. A bad file is
a sentence in the second result, never an exception: a typing error must not keep the screen away.
"""

from __future__ import annotations

import contextlib
import os
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

DEFAULT_THEME = "eagle-dark"
_TEXTUAL = (
    "primary", "secondary", "accent", "foreground", "background", "surface", "panel", "success",
    "warning", "error",
)  # fmt: skip
_OWN = ("muted", "track", "border", "reasoning", "chart", "cursor")
COLORS = (*_TEXTUAL, *_OWN)
"""Every colour a theme file gives."""


class ThemeError(ValueError):
    """A theme file that cannot be used; `str()` says which, what is wrong and what to do."""


def parse_theme(text: str, where: str) -> Theme:
    """One theme file's text as a Textual theme. Raises ThemeError; `where` names the file in it."""
    try:
        body = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ThemeError(f"theme file {where} is not valid TOML: {error}") from error
    name, dark = body.get("name"), body.get("dark")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ThemeError(f'theme file {where}: `name` is missing; write name = "my-theme"')
    if not isinstance(dark, bool):
        raise ThemeError(f"theme file {where}: `dark` must be true or false")
    colors = _colors(body.get("colors"), where)
    ansi = body.get("ansi") is True
    theme = Theme(
        name=name,
        dark=dark,
        ansi=ansi,
        primary=colors["primary"],
        boost=colors["surface"],
        variables=_variables(colors, dark, ansi),
    )
    for key in _TEXTUAL:
        setattr(theme, key, colors[key])
    return theme


def user_directory() -> Path:
    """Where users put their own theme files."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "eagle-tui" / "themes"


@dataclass(frozen=True)
class Themes:
    """What one reading of all theme files gave."""

    by_name: dict[str, Theme]
    origins: dict[str, str]
    """The file that each theme comes from."""
    broken: dict[str, str]
    """A sentence for each file that was left out."""

    def kept_from(self, before: Themes) -> Themes:
        """These themes, and the last good ones of files that were fine before and are broken now:
        somebody is editing them."""
        kept = {name: file for name, file in before.origins.items() if file in self.broken}
        old = {name: before.by_name[name] for name in kept}
        return replace(self, by_name=self.by_name | old, origins=self.origins | kept)


class ThemeFiles:
    """The package's theme files and the user's, read again when one has changed."""

    def __init__(self, user_dir: Path | None = None) -> None:
        """Reads them all. A user's theme replaces one of the package that has the same name."""
        self._user_dir = user_dir or user_directory()
        self._stamp = self._look()
        self.themes = self._read()

    def refresh(self) -> Themes | None:
        """The themes if a file was changed, added or taken away since the last look, else None.
        Does file I/O: call it in a thread."""
        stamp = self._look()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        self.themes = self._read().kept_from(self.themes)
        return self.themes

    def _sources(self) -> list[Traversable]:
        own = [item for item in files("eagle_tui.themes").iterdir() if item.name.endswith(".toml")]
        return [*sorted(own, key=lambda item: item.name), *sorted(self._user_dir.glob("*.toml"))]

    def _look(self) -> tuple[tuple[str, int, int], ...]:
        """Name, time of change and size of each file."""
        found = []
        for source in self._sources():
            if isinstance(source, Path):
                with contextlib.suppress(OSError):
                    stat = source.stat()
                    found.append((str(source), stat.st_mtime_ns, stat.st_size))
        return tuple(found)

    def _read(self) -> Themes:
        themes = Themes({}, {}, {})
        for source in self._sources():
            where = str(source)
            try:
                theme = parse_theme(source.read_text(encoding="utf-8"), where)
            except ThemeError as error:
                themes.broken[where] = str(error)
            except (OSError, UnicodeDecodeError) as error:
                themes.broken[where] = f"theme file {where} cannot be read: {error}"
            else:
                themes.by_name[theme.name] = theme
                themes.origins[theme.name] = where
        return themes


def _colors(table: Any, where: str) -> dict[str, str]:
    if not isinstance(table, dict):
        raise ThemeError(f"theme file {where}: the table [colors] is missing")
    unknown = sorted(set(table) - set(COLORS))
    if unknown:
        raise ThemeError(
            f"theme file {where}: no such colour: {', '.join(unknown)}; known: {', '.join(COLORS)}"
        )
    missing = [key for key in COLORS if key not in table]
    if missing:
        raise ThemeError(f"theme file {where}: [colors] lacks {', '.join(missing)}")
    for key, value in table.items():
        try:
            Color.parse(value)
        except (ColorParseError, TypeError, AttributeError) as error:
            raise ThemeError(
                f"theme file {where}: {key} = {value!r} is no colour; write #rrggbb or a name"
            ) from error
    return dict(table)


def _variables(colors: dict[str, str], dark: bool, ansi: bool) -> dict[str, str]:
    """Our own colours, and Textual's derived ones that must follow them."""
    variables = {f"eagle-{key}": colors[key] for key in _OWN}
    contrast = "ansi_bright_white" if ansi else colors["foreground"]
    if ansi:
        variables |= BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables
    return variables | {
        "border": colors["border"],
        "border-blurred": colors["border"],
        "block-cursor-background": colors["cursor"],
        "block-cursor-foreground": contrast,
        "block-cursor-text-style": "bold",
        "input-selection-background": colors["cursor"],
        "scrollbar": colors["track"],
        "scrollbar-hover": colors["muted"],
        "scrollbar-active": colors["primary"],
        "scrollbar-background": colors["background"],
        "scrollbar-background-hover": colors["background"],
        "scrollbar-background-active": colors["background"],
        "scrollbar-corner-color": colors["background"],
        "footer-key-foreground": colors["primary"],
    }
