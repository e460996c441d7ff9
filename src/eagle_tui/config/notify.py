"""The `[notify]` section of run.toml."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from eagle_tui.config.section import Section

NoticeKind = Literal["phase_done", "phase_failed", "paused", "alert", "done"]


class NotifySection(Section):
    """Telling somebody outside of the screen. Nothing is sent unless `command` or `url` is set."""

    command: list[str] = []
    """Program with its arguments that is started for each notice, in the run directory; no shell.
    The notice is JSON on its standard input (docs/status.md); what it prints goes to
    logs/notify.log."""
    url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """Address to which the same JSON is posted. Its member `text` is a sentence, as chat services
    take it."""
    on: list[NoticeKind] = ["phase_done", "phase_failed", "paused", "alert", "done"]
    """What is told: a phase is done or failed; generation paused without an order; an alert of
    severity error; every phase is done."""
    quiet_s: float = Field(default=300.0, ge=0)
    """Seconds within which the same is not told again."""
    timeout_s: float = Field(default=15.0, gt=0, le=600)
    """Seconds that the command or the address gets; then it counts as failed, and the command is
    killed."""
