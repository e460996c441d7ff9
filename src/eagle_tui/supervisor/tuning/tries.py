"""What the starts with new settings say of these. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from eagle_tui.supervisor.launches import LOST, Try

TRIES = 2
"""Starts with new settings when the first one was killed from outside."""
FROM_OUTSIDE = ("killed", "child-killed", "port", "dist-port", LOST)
"""Rules of `telemetry.diagnosis` that are not the settings' fault."""
EARLY_S = 120.0
"""A server that dies by itself so soon after it was ready with new settings cannot live with them:
too little memory shows in the first prefill under load."""


def again(one: Try) -> bool:
    """Whether a start that failed says nothing against the settings."""
    return one.ended and one.rule in FROM_OUTSIDE


def early_death(tries: Iterable[Try]) -> str:
    """Why a server died by itself before it was ready with new settings, or soon after; empty: it
    did not."""
    for one in tries:
        if one.ended and not again(one) and (one.lived_s is None or one.lived_s <= EARLY_S):
            when = "" if one.lived_s is None else f", {one.lived_s:.0f} s after it was ready"
            return f"{one.reason}{when}"
    return ""
