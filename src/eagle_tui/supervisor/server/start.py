"""How far a server's start is, for the status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle_tui.telemetry.server_log import Stage


@dataclass(frozen=True)
class Start:
    """One start."""

    since: float
    """Monotonic time of the launch."""
    last_s: float | None
    """Seconds that the last good start took; None: there was none."""

    def figures(self, stage: Stage | None, now: float) -> dict[str, Any]:
        """`stage`, `progress` and `eta_s` of the status."""
        return {
            "stage": stage.name if stage else "",
            "progress": stage.progress if stage else None,
            "eta_s": None if self.last_s is None else max(0.0, self.last_s - (now - self.since)),
        }


def retuned(settings: Mapping[str, str | None]) -> str:
    """What holds over run.toml, as the end of a sentence; nothing when nothing does."""
    words = " ".join(f"{k}={'none' if v is None else v}" for k, v in settings.items())
    return f", retuned: {words}" if words else ""
