"""Theme files: the package's own and the user's, read from TOML and made into Textual themes.

A theme file holds `name`, `dark` and a table `[colors]` with every name of `COLORS`. A bad file is
a sentence in the second result, never an exception: a typing error must not keep the screen away.
"""

from __future__ import annotations

import os
import tomllib
from importlib.resources import files
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


def load_themes(user_dir: Path | None = None) -> tuple[dict[str, Theme], list[str]]:
    """All themes by name, the package's first, and a sentence for each file left out.

    A user's theme replaces one of the package that has the same name.
    """
    themes: dict[str, Theme] = {}
    problems: list[str] = []
    sources = [
        *sorted(
            (item for item in files("eagle_tui.themes").iterdir() if item.name.endswith(".toml")),
            key=lambda item: item.name,
        ),
        *sorted((user_dir or user_directory()).glob("*.toml")),
    ]
    for source in sources:
        try:
            theme = parse_theme(source.read_text(encoding="utf-8"), str(source))
        except (ThemeError, OSError, UnicodeDecodeError) as error:
            sentence = str(error)
            if not isinstance(error, ThemeError):
                sentence = f"theme file {source} cannot be read: {error}"
            problems.append(sentence)
        else:
            themes[theme.name] = theme
    return themes, problems


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
