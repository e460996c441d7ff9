"""The half of the application that knows its terminal: colours, characters, themes, keys, output
that never waits, suspending and coming back. What is shown is the other half's business (`app.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from textual import events
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter, NoColor
from textual.theme import Theme

from eagle_tui.ui import themes
from eagle_tui.ui.abilities import COLOR_SYSTEMS, ColorDepth
from eagle_tui.ui.command_palette import ActionPalette
from eagle_tui.ui.driver import ScreenDriver
from eagle_tui.ui.glyphs import GlyphMode, glyph_set
from eagle_tui.ui.key_order import KeyDone, KeyOrder
from eagle_tui.ui.keymap import load_keymap
from eagle_tui.ui.palette import Palette, palette
from eagle_tui.ui.terminal import TerminalWatch, can_suspend
from eagle_tui.ui.work import begin

RELOAD_S = 2.0
"""How often theme files are looked at: a few stat calls."""
UNFOCUSED_S = 5.0
"""Least time between two drawings while the terminal says that nobody types in it."""
_COLORLESS: Sequence[LineFilter] = (NoColor(),)


class TerminalApp(App[None], inherit_bindings=False):
    """Looks and keys; leaves when the terminal does."""

    def __init__(
        self,
        *,
        theme: str = themes.DEFAULT_THEME,
        glyphs_mode: GlyphMode = "braille",
        color: ColorDepth | None = None,
        mouse: bool = True,
        theme_dir: Path | None = None,
        keys_file: Path | None = None,
        reload_s: float = RELOAD_S,
    ) -> None:
        """`theme` names a theme file's theme; an unknown one falls back to the default and says
        so. `color` None leaves the choice to Textual. `mouse` off: the terminal keeps the mouse,
        to select text with it. `theme_dir` and `keys_file` replace the user's own."""
        self._theme_files = themes.ThemeFiles(theme_dir)
        self._found = self._theme_files.themes
        self.keymap, key_notes = load_keymap(keys_file)
        self.notes = [*self._found.broken.values(), *key_notes]
        """Sentences about the user's files, to be shown once."""
        self.glyphs = glyph_set(glyphs_mode, colors=color != "none")
        self.wants_mouse = mouse
        self._reload_s = reload_s
        self._keys = KeyOrder(self, self._deliver_key)
        self._drawn_at = float("-inf")
        super().__init__(ansi_color=None)
        if color is not None:
            self.no_color = color == "none"
            self.console = Console(
                color_system=COLOR_SYSTEMS[color],  # type: ignore[arg-type]
                file=self.console.file,
                force_terminal=True,
                markup=True,
                highlight=False,
                emoji=False,
                legacy_windows=False,
                safe_box=False,
                soft_wrap=False,
                _environ={},
            )
        for name in list(self.available_themes):
            self.unregister_theme(name)
        for item in self._found.by_name.values():
            self.register_theme(item)
        if theme not in self._found.by_name:
            known = ", ".join(self.theme_names)
            self.notes.append(f"There is no theme {theme!r}; themes: {known}.")
            theme = themes.DEFAULT_THEME
        self.palette: Palette = palette(self._found.by_name[theme])
        self.theme = theme
        self.terminal = TerminalWatch(self.exit)
        self.set_class(glyphs_mode == "ascii", "-ascii")

    # Looks

    @property
    def theme_names(self) -> list[str]:
        """The themes to choose from."""
        return list(self._found.by_name)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own colour names, so that style sheets can be read before a theme is chosen."""
        default = self._found.by_name[themes.DEFAULT_THEME]
        return {key: value for key, value in default.variables.items() if key.startswith("eagle-")}

    def set_theme(self, name: str) -> None:
        """Change the theme now."""
        self.palette = palette(self._found.by_name[name])
        self.theme = name

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colours, every one of them is the terminal's own."""
        return _COLORLESS if self.no_color else super().get_line_filters()

    async def _watch_themes(self) -> None:
        while True:
            await asyncio.sleep(self._reload_s)
            with contextlib.suppress(OSError):  # a directory that cannot be read now; later
                newer = await asyncio.to_thread(self._theme_files.refresh)
                if newer is not None:
                    self._take_themes(newer)

    def _take_themes(self, newer: themes.Themes) -> None:
        """Show what was changed in a theme file. The theme in use stays even if its file goes."""
        before, self._found = self._found, newer
        newer.by_name.setdefault(self.theme, before.by_name[self.theme])
        for name in set(before.by_name) - set(newer.by_name):
            self.unregister_theme(name)
        for item in newer.by_name.values():
            self.register_theme(item)
        for file, sentence in newer.broken.items():
            if before.broken.get(file) != sentence:
                self.notify(sentence, severity="warning", markup=False)
        if _differ(before.by_name[self.theme], newer.by_name[self.theme]):
            self.palette = palette(newer.by_name[self.theme])
            self.mutate_reactive(App.theme)

    # Keys

    def action_command_palette(self) -> None:
        """Open the palette, once."""
        if not isinstance(self.screen, ActionPalette):
            self.push_screen(ActionPalette())

    async def on_event(self, event: events.Event) -> None:
        """As Textual does, but keys one after the other."""
        if isinstance(event, events.Resize) and isinstance(self._driver, ScreenDriver):
            self._driver.forget()
        if isinstance(event, events.Key) and not event.is_forwarded:
            await self._keys.take(event)
        else:
            await super().on_event(event)

    async def _deliver_key(self, event: events.Key) -> None:
        await super().on_event(event)

    def on_key_done(self, message: KeyDone) -> None:
        self._keys.done(message)

    # The terminal

    def get_driver_class(self) -> type[Driver]:
        """Ours where Textual would take its own for a terminal."""
        found = super().get_driver_class()
        return ScreenDriver if found is LinuxDriver else found

    def watch_terminal(self) -> None:
        """Begin to watch the terminal and the theme files; call when the app is mounted."""
        self.terminal.start()
        self.set_keymap(self.keymap.bindings())
        self.app_resume_signal.subscribe(self, lambda _app: self.repaint())
        begin(self, self._watch_themes, group="themes")
        for note in self.notes:
            self.notify(note, severity="warning", markup=False)

    def worth_drawing(self, now: float) -> bool:
        """Whether new figures should be drawn at monotonic time `now`: always while somebody looks,
        now and then when the terminal says that it has lost the focus (it may still be in sight),
        not at all while it takes nothing in."""
        if isinstance(self._driver, ScreenDriver) and self._driver.behind:
            return False
        if not self.app_focus and now - self._drawn_at < UNFOCUSED_S:
            return False
        self._drawn_at = now
        return True

    def repaint(self) -> None:
        """Draw everything anew: what is on the terminal is not what we think."""
        if isinstance(self._driver, ScreenDriver):
            self._driver.forget()
        self.refresh(layout=True)

    def on_screen_driver_caught_up(self) -> None:
        self.repaint()

    def on_screen_driver_gone(self) -> None:
        self.terminal.leave()

    def action_suspend_process(self) -> None:
        """Stop until the shell's `fg`. Without a shell to come back to nobody could ever go on."""
        if can_suspend():
            super().action_suspend_process()
        else:
            self.notify("There is no shell behind this screen to suspend to.", markup=False)


def _differ(one: Theme, other: Theme) -> bool:
    return one is not other and one != other
