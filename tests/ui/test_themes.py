"""Themes: readable by everybody, in every depth of colour, and read again while in use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual.color import Color

from eagle_tui.ui import themes
from eagle_tui.ui.abilities import color_depth, default_theme, glyph_mode
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.glyphs import glyph_set

MakeApp = Callable[..., EagleApp]
Rgb = tuple[float, float, float]

OWN = themes.ThemeFiles(Path("/nonexistent")).themes.by_name
COLORED = [name for name, theme in OWN.items() if not theme.ansi]
TEXT = ("foreground", "primary", "secondary", "accent", "success", "warning", "error")
OWN_TEXT = ("muted", "reasoning", "chart")
GROUNDS = ("background", "surface", "panel")
AA, AAA, LARGE = 4.5, 7.0, 3.0
"""WCAG 2.1, success criteria 1.4.3 and 1.4.6."""
DICHROMATS: dict[str, tuple[Rgb, Rgb, Rgb]] = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
               (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
               (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
               (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
"""Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB."""


def linear(color: Rgb) -> Rgb:
    """sRGB 0..255 as linear light 0..1."""
    red, green, blue = (
        part / 255 / 12.92 if part / 255 <= 0.04045 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in color
    )
    return red, green, blue


def contrast(one: Rgb, other: Rgb) -> float:
    """WCAG's contrast ratio, 1..21."""
    light = sorted(
        0.2126 * red + 0.7152 * green + 0.0722 * blue
        for red, green, blue in (linear(one), linear(other))
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


def rgb(theme: str, name: str, depth: ColorSystem = ColorSystem.TRUECOLOR) -> Rgb:
    found = OWN[theme]
    value = getattr(found, name, None) or found.variables[f"eagle-{name}"]
    parsed = Color.parse(value)
    shown = RichColor.from_rgb(parsed.r, parsed.g, parsed.b).downgrade(depth).get_truecolor()
    return shown.red, shown.green, shown.blue


@pytest.mark.parametrize("theme", COLORED)
@pytest.mark.parametrize("name", [*TEXT, *OWN_TEXT])
def test_every_text_colour_reads_on_every_ground(theme: str, name: str) -> None:
    least = AAA if theme == "eagle-contrast" else AA
    for ground in GROUNDS:
        assert contrast(rgb(theme, name), rgb(theme, ground)) >= least, ground
    assert contrast(rgb(theme, name), rgb(theme, "cursor")) >= AA
    few = ColorSystem.EIGHT_BIT
    for ground in (*GROUNDS, "cursor"):
        assert contrast(rgb(theme, name, few), rgb(theme, ground, few)) >= LARGE, ground


@pytest.mark.parametrize("kind", DICHROMATS)
def test_states_differ_for_every_kind_of_colour_vision(kind: str) -> None:
    def seen(name: str) -> Rgb:
        light = linear(rgb("eagle-colorblind", name))
        red, green, blue = (
            sum(weight * part for weight, part in zip(row, light, strict=True))
            for row in DICHROMATS[kind]
        )
        return red, green, blue

    for one, other in combinations(("success", "warning", "error"), 2):
        distance = sum((a - b) ** 2 for a, b in zip(seen(one), seen(other), strict=True)) ** 0.5
        assert distance > 0.2, (one, other, distance)


GOOD = 'name = "{name}"\ndark = true\n[colors]\n' + "\n".join(
    f'{key} = "#101010"' for key in themes.COLORS
)


def write(path: Path, text: str) -> None:
    """Write, and make sure that the time of change differs."""
    stamp = path.stat().st_mtime_ns + 10**9 if path.exists() else None
    path.write_text(text)
    if stamp is not None:
        os.utime(path, ns=(stamp, stamp))


def test_files_are_read_again_only_when_one_changed(tmp_path: Path) -> None:
    files = themes.ThemeFiles(tmp_path)
    assert files.refresh() is None
    mine = tmp_path / "mine.toml"
    write(mine, GOOD.format(name="mine"))
    found = files.refresh()
    assert found is not None and "mine" in found.by_name and not found.broken
    assert files.refresh() is None
    # Broken while being edited: said once, the last good one stays.
    write(mine, "name = ")
    found = files.refresh()
    assert found is not None and "mine" in found.by_name
    assert ["mine.toml" in file for file in found.broken] == [True]
    write(mine, GOOD.format(name="mine").replace('muted = "#101010"', 'muted = "#202020"'))
    found = files.refresh()
    assert found is not None and not found.broken
    assert found.by_name["mine"].variables["eagle-muted"] == "#202020"
    mine.unlink()
    found = files.refresh()
    assert found is not None and "mine" not in found.by_name


def test_a_broken_copy_of_our_theme_does_not_bring_ours_back(tmp_path: Path) -> None:
    mine = tmp_path / "dark.toml"
    write(mine, GOOD.format(name="eagle-dark"))
    files = themes.ThemeFiles(tmp_path)
    write(mine, "dark = maybe")
    found = files.refresh()
    assert found is not None and found.by_name["eagle-dark"].primary == "#101010"


async def test_the_theme_in_use_follows_its_file(
    tmp_path: Path, client: Any, make_app: MakeApp, ui: Any
) -> None:
    folder = tmp_path / "themes"
    folder.mkdir()
    mine = folder / "mine.toml"
    write(mine, GOOD.format(name="mine"))
    app = make_app(client, theme="mine", theme_dir=folder, reload_s=0.05)
    async with ui.run(app, (100, 30)) as pilot:
        await ui.ready(pilot)

        def muted() -> str:
            color = app.palette.muted.color
            return color.name if color else ""

        assert muted() == "#101010"
        write(mine, GOOD.format(name="mine").replace("#101010", "#aabbcc"))
        await ui.until(pilot, lambda: muted() == "#aabbcc")
        await ui.until(pilot, lambda: app.screen.styles.background.hex.lower() == "#aabbcc")
        write(mine, "name = ")
        await ui.until(
            pilot, lambda: any("not valid TOML" in n.message for n in app._notifications)
        )
        assert muted() == "#aabbcc" and app.theme == "mine"
        mine.unlink()
        await asyncio.sleep(0.2)
        assert app.theme == "mine", "what is in use stays until another is chosen"
        app.set_theme("eagle-light")
        await ui.until(pilot, lambda: app.screen.styles.background.hex.lower() == "#fbfbf8")


# What the environment says


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "screen"}, "16"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "xterm-direct"}, "truecolor"),
        ({"TERM": "vt100"}, "none"),
        ({}, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ],
)
def test_colour_depth(environ: dict[str, str], depth: str) -> None:
    assert color_depth(environ) == depth
    assert color_depth(environ, "256") == "256", "what is asked for counts"


@pytest.mark.parametrize(
    ("environ", "mode"),
    [
        ({"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}, "braille"),
        ({"TERM": "xterm-256color"}, "braille"),
        ({"TERM": "xterm-256color", "LANG": "C.utf8"}, "braille"),
        ({"TERM": "xterm-256color", "LC_ALL": "C", "LANG": "C.UTF-8"}, "ascii"),
        ({"TERM": "xterm", "LANG": "de_DE.ISO-8859-1"}, "ascii"),
        ({"TERM": "linux", "LANG": "C.UTF-8"}, "ascii"),
        ({"TERM": "linux", "LANG": "C.UTF-8", "EAGLE_TUI_GLYPHS": "block"}, "block"),
        ({"TERM": "xterm", "EAGLE_TUI_GLYPHS": "nonsense"}, "braille"),
    ],
)
def test_glyph_mode(environ: dict[str, str], mode: str) -> None:
    assert glyph_mode(environ) == mode


def test_without_colours_the_terminals_own_are_used_and_bars_differ_by_shape() -> None:
    assert default_theme("none", "eagle-dark") == "eagle-ansi"
    assert default_theme("16", "eagle-dark") == "eagle-ansi"
    assert default_theme("256", "eagle-dark") == "eagle-dark"
    for mode in ("braille", "block", "ascii"):
        glyphs = glyph_set(mode, colors=False)
        assert glyphs.bar_full != glyphs.bar_track
