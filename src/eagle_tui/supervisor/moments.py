"""Words of the marks that charts show for the operator's orders. Pure."""

from __future__ import annotations

from typing import Any

MARKED = frozenset({"pause", "resume", "cap", "concurrency", "skip", "order", "advance", "undo"})
"""Orders that change what a chart shows. A retune makes its own mark, when it takes effect."""
LONGEST = 80


def mark_kind(verb: str, pause_before: str, pause_after: str) -> str:
    """The kind of an order's mark: whatever pauses or resumes counts as that, also an undo."""
    if (pause_before == "no") != (pause_after == "no"):
        return "resume" if pause_after == "no" else "pause"
    return verb


def order_text(verb: str, args: dict[str, Any]) -> str:
    """An order in a few words: `pause hold`, `cap b1_glaive tokens 10M`."""
    words = [verb]
    for name, value in args.items():
        if value is None or value is False or (name, value) == ("in_flight", "hold"):
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, dict):
            words += (f"{key}={word}" for key, word in value.items())
        elif isinstance(value, list | tuple):
            words.append(" ".join(map(str, value)))
        elif name in ("dataset", "phase", "mode", "value", "server", "in_flight"):
            words.append(str(value))
        else:
            words.append(f"{name} {_count(value)}")
    return " ".join(words)[:LONGEST]


def _count(value: object) -> str:
    if isinstance(value, int):
        for size, letter in ((10**6, "M"), (10**3, "k")):
            if value >= size and value % (size // 10) == 0:
                return f"{value / size:g}{letter}"
    return str(value)
