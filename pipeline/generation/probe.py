"""Before the flood: does a reasoning model reason? Pure.

Reasoning that is never captured was once explained away for days as "short answers". So the first
prompts go out one at a time until an answer shows a thought; their results are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .speech import Parts, Speech

LOOKS = 3
"""So many answers in a row without a thought are no chance."""
PATIENCE_S = 30.0
"""A first answer that takes longer than this does not keep the servers idle: the others are sent,
and it is judged when it comes."""

Mode = Literal["refuse", "warn", "off"]


class Probe:
    """Watches the first answers. `needed`: False when there is nothing to find out."""

    def __init__(self, mode: Mode, *, needed: bool, now: float) -> None:
        self._mode = mode
        self._began = now
        self._bad = 0
        self._over = mode == "off" or not needed
        self.refusal = ""
        """Why the phase must not go on."""
        self.warning = ""
        """What the operator should know; taken by whoever tells it."""

    def skip(self) -> None:
        """There is nothing to find out: stored responses show thoughts."""
        self._over = True

    def holds(self, in_flight: int, now: float) -> bool:
        """Must the next request wait for the one in flight?"""
        if self._over:
            return False
        if not in_flight:
            self._began = now
            return False
        return now - self._began < PATIENCE_S

    def see(self, opened: bool, speech: Speech, so_far: Sequence[int]) -> None:
        """An answer that goes on: enough when its thought can be seen."""
        if not self._over and speech.split(so_far, opened).reasoning_tokens:
            self._over = True

    def judge(self, opened: bool, parts: Parts) -> None:
        """A whole answer."""
        if self._over:
            return
        if parts.reasoning_tokens:
            self._over = True
            return
        self._bad += 1
        if self._bad < LOOKS:
            return
        self._over = True
        text = (
            f"target.reasoning says that the model reasons, but {LOOKS} answers hold no reasoning. "
            "Check that target.reasoning names the family of this model, that the chat template "
            "(target.chat_template, target.chat_template_kwargs) turns thinking on, and that the "
            'server runs the model of target.model; reasoning = "none" is for models that do not '
            "reason"
        )
        if opened and self._mode == "refuse":
            self.refusal = (
                f"{text}. Its prompts open a thought, so this is not chance; [generate] probe = "
                '"warn" goes on all the same'
            )
        else:
            self.warning = text
