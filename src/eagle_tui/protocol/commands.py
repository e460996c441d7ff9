"""Commands: what is asked for, what it would cost, how far it is."""

from __future__ import annotations

from typing import Any

from .base import CommandState, Frozen


class CommandRequest(Frozen):
    """An operator's order. `id` is made by the asker, so asking twice does it once."""

    id: str
    verb: str
    args: dict[str, Any] = {}
    origin: str = ""


class Preview(Frozen):
    """What a command would do and cost, said before it is done."""

    allowed: bool
    sentence: str
    drops_work: bool = False


class CommandStatus(Frozen):
    id: str
    verb: str
    args: dict[str, Any]
    state: CommandState
    at: float
    reason: str = ""
    origin: str = ""
    accepted_at: float | None = None
    effect_at: float | None = None
    """Unix time at which it was in effect, or refused."""
    sentence: str = ""
    """What it does, as it was said when it was accepted."""
    undo: str = ""
    """What `undo` of it would do; empty: it cannot be undone."""
