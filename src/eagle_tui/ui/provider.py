"""The command palette: the registry's actions and the themes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from eagle_tui.actions import ACTIONS
from eagle_tui.ui.glyphs import ascii_text
from eagle_tui.ui.keys import key_text

if TYPE_CHECKING:
    from eagle_tui.ui.app import EagleApp


class ActionProvider(Provider):
    """Every action that can act on this screen, by name or by a word of its help."""

    def _commands(self) -> Iterator[tuple[str, str, IgnoreReturnCallbackType]]:
        app = cast("EagleApp", self.app)
        scope = app.scope.NAME
        for action in ACTIONS:
            here = action.acts_on(scope, app.mode) or action.id == "quit"
            if not here or action.opens == scope:
                continue
            if app.readonly and action.verb:
                continue
            own = app.keymap.of(action).key
            key = f"  ({key_text(own)})" if own else ""
            help_text = ascii_text(action.help) if app.glyphs.mode == "ascii" else action.help
            yield f"{action.label}{key}", help_text, partial(app.act, action.id)
        for name in app.theme_names:
            yield f"Theme {name}", "Change the colours.", partial(app.set_theme, name)

    async def discover(self) -> Hits:
        for name, help_text, callback in self._commands():
            yield DiscoveryHit(name, callback, help=help_text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, help_text, callback in self._commands():
            score = max(matcher.match(name), matcher.match(help_text) * 0.7)
            if score > 0:
                yield Hit(score, matcher.highlight(name), callback, help=help_text)
