"""Whether errors are the prompts' fault or the endpoint's. Pure.

A server that is broken, or is none, answers every prompt with an error, and fast: counted as tries
of the prompts, these would give up a whole dataset within minutes. One prompt that cannot be
answered fails among others that can.
"""

from __future__ import annotations

PROMPTS = 20
"""So many different prompts in a row without one answer are not bad prompts."""
KINDS = ("server_error", "garbled", "rejected")
"""Troubles that count as tries of a prompt; see `policy`."""
LONGEST_S = 30.0
"""Between two prompts on trial, at most."""


class Blame:
    """Of one endpoint."""

    def __init__(self) -> None:
        self._failed: set[str] = set()
        self._trials = 0

    @property
    def prompts(self) -> int:
        """Different prompts that failed since the last answer."""
        return len(self._failed)

    @property
    def sick(self) -> bool:
        """It answers nothing but errors."""
        return len(self._failed) >= PROMPTS

    def failed(self, prompt: str) -> None:
        """A prompt, by its id, got an error of `KINDS`."""
        self._failed.add(prompt)

    def answered(self) -> bool:
        """It gave an answer; was it sick until now?"""
        was = self.sick
        self._failed.clear()
        self._trials = 0
        return was

    def next_trial_s(self) -> float:
        """Seconds until the next prompt is tried on it: longer each time."""
        self._trials += 1
        return min(LONGEST_S, 0.5 * 2.0 ** min(self._trials, 16))
