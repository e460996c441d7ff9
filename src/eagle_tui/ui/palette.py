"""The theme's colours as Rich styles by meaning: what a widget asks for when it draws."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from textual.color import Color
from textual.theme import Theme

_STATE_ROLE = {
    "pending": "muted", "blocked": "warn", "running": "accent", "paused": "warn",
    "draining": "warn", "stalled": "error", "failed": "error", "done": "ok", "stale": "warn",
    "capped": "ok", "skipped": "muted",
    "stopped": "muted", "starting": "warn", "ready": "ok", "unready": "error", "stopping": "warn",
    "attached": "ok",
    "info": "muted", "warning": "warn", "error": "error", "ok": "ok",
    "requested": "muted", "accepted": "accent", "in_effect": "ok", "refused": "error",
}  # fmt: skip


_REVERSED = Style(color="default", bgcolor="default", reverse=True)
"""The cursor where the ground's colour is not ours to know: any colour on it could vanish."""
_DIM = Style(color="default", dim=True)
"""Quiet text in the terminal's own colours: bright black is the ground itself in some schemes."""


@dataclass(frozen=True)
class Palette:
    """Styles by meaning. Backgrounds are left to the widget, but for the cursor."""

    text: Style
    strong: Style
    muted: Style
    ok: Style
    warn: Style
    error: Style
    accent: Style
    key: Style
    track: Style
    chart: Style
    reasoning: Style
    cursor: Style

    def state(self, name: str) -> Style:
        """The style of a phase, dataset, server, command or alert state."""
        style: Style = getattr(self, _STATE_ROLE.get(name, "text"))
        return style

    def level(self, share: float | None, warn: float, error: float) -> Style:
        """Good, warning or bad as `share` rises."""
        if share is None:
            return self.muted
        return self.error if share >= error else self.warn if share >= warn else self.ok


def palette(theme: Theme) -> Palette:
    """The styles of a theme made by `themes.parse_theme`."""

    def style(color: str | None, **attributes: bool) -> Style:
        parsed = Color.parse(color or "ansi_default")
        return Style(color=parsed.rich_color, **attributes)  # type: ignore[arg-type]

    own = theme.variables
    ground = Color.parse(own["eagle-cursor"]).rich_color
    return Palette(
        text=style(theme.foreground),
        strong=style(theme.foreground, bold=True),
        muted=_DIM if theme.ansi else style(own["eagle-muted"]),
        ok=style(theme.success),
        warn=style(theme.warning),
        error=style(theme.error, bold=True),
        accent=style(theme.secondary),
        key=style(theme.primary, bold=True),
        track=style(own["eagle-track"]),
        chart=style(own["eagle-chart"]),
        reasoning=style(own["eagle-reasoning"], italic=True),
        cursor=_REVERSED if theme.ansi else Style(bgcolor=ground),
    )
