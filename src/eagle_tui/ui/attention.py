"""Drawing the eye from elsewhere: the terminal's title, and its bell."""

from __future__ import annotations

from collections.abc import Callable

from eagle_tui import fmt
from eagle_tui.notices import notices, ordered_pause
from eagle_tui.protocol import Status
from eagle_tui.ui.verdict import active_phase
from eagle_tui.ui.wrap import safe_line

PUSH, POP = "\x1b[22;2t", "\x1b[23;2t"
"""Keep the title that is there on the terminal's own stack, and put it back (xterm, tmux)."""
LONGEST = 80


def title(status: Status, prefix: str = "") -> str:
    """`kimi: generate 33%, 17–26 h`, with the worst error before it; one line, no controls."""
    words = status.run.name
    phase = active_phase(status)
    if phase is not None:
        words += f": {phase.name}"
        if phase.state != "running":
            words += f" {phase.state}"
        share = fmt.share(phase.done, phase.total)
        words += f" {fmt.percent(share)}" if share is not None else ""
        words += f", {fmt.eta(phase.eta_s)}" if phase.eta_s else ""
    elif any(alert.rule == "done" for alert in status.alerts):
        words += ": done"
    if any(alert.severity == "error" for alert in status.alerts):
        words = f"! {words}"
    return safe_line(prefix + words)[:LONGEST]


class Attention:
    """Writes title and bell to the terminal, each only when something changed."""

    def __init__(self, write: Callable[[str], None], *, title: bool, bell: bool) -> None:
        """`write` sends text to the terminal as it is."""
        self._write, self._title, self._bell = write, title, bell
        self._shown = ""
        self._before: Status | None = None

    def show(self, status: Status, prefix: str = "") -> None:
        """A snapshot came."""
        if self._bell and notices(self._before, status, ordered_pause(status)):
            self._write("\a")
        self._before = status
        words = title(status, prefix) if self._title else ""
        if words != self._shown:
            self._write(f"{'' if self._shown else PUSH}\x1b]2;{words}\x07")
            self._shown = words

    def restore(self) -> None:
        """Put the title back that was there."""
        if self._shown:
            self._write(POP)
            self._shown = ""
