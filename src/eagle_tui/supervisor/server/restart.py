"""Whether a server that died is started again, and when. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagle_tui.config.model import SupervisorSection
from eagle_tui.supervisor.phases import Deaths
from eagle_tui.telemetry.diagnosis import Diagnosis


@dataclass(frozen=True)
class Verdict:
    """What is done about a death."""

    deaths: Deaths
    wait_s: float | None
    """Seconds until the next start; None: it is not for us to start it again."""
    failed: bool
    sentence: str


def verdict(
    before: Deaths,
    reason: str,
    found: Diagnosis | None,
    settings: SupervisorSection,
    *,
    now: float,
    started: float,
    was_ready: bool,
    trial: bool,
) -> Verdict:
    """One more death. `trial`: somebody else decides about starts that fail. What the same settings
    cannot mend is not tried again, unless the server had been ready with them."""
    if trial and not was_ready:
        return Verdict(before, None, failed=False, sentence=f"did not start: {reason}")
    if found is not None and found.permanent and not was_ready:
        return Verdict(before, None, failed=True, sentence=f"not started again: {reason}")
    # A server that was ready has shown that it can live: only its start is counted.
    lived_s = 0.0 if was_ready else now - started
    deaths = before.after(now, settings.restart_window_s, lived_s)
    count = len(deaths.times)
    if count > settings.restarts:
        return Verdict(
            deaths, None, failed=True, sentence=f"died {count} times, given up: {reason}"
        )
    wait = deaths.backoff_s(settings.backoff_s)
    return Verdict(deaths, wait, False, f"died ({reason}); restart in {wait:.0f} s")
