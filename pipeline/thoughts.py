"""Thoughts in the messages of a dataset: apart from the answer, and back as the model writes them.
Pure. (Those of generated answers are split by token ids: `reasoning.py`.)
"""

from __future__ import annotations

from typing import Any

from .families import Family


def thought_of(message: dict[str, Any], family: Family) -> str:
    """The thought of an assistant's message: of a field of its own, or what its content holds
    before a closing marker. Empty: none, or one that is not closed."""
    if field := message.get("reasoning_content"):
        return str(field).strip()
    head, closer, _ = _closed(message["content"], family)
    return _without_opener(head, family).strip() if closer else ""


def as_written(message: dict[str, Any], family: Family, before: str) -> str:
    """What the model writes after the prompt `before`: thought, closing marker and answer, without
    the opening marker where the prompt has set it already. White space is as the row has it; where
    thought and answer are apart, as most models set it."""
    content = str(message["content"])
    opened = before.rstrip().endswith(family.openers)
    if message.get("reasoning_content"):
        content = f"{thought_of(message, family)}\n{family.closers[0]}\n\n{content.lstrip()}"
        content = content if opened else f"{family.openers[0]}\n{content}"
    elif opened:
        content = _without_opener(content, family)
    return content.lstrip("\n") if before.endswith("\n") else content


def _closed(content: str, family: Family) -> tuple[str, str, str]:
    """Content cut at its first closing marker; no marker: all of it, and nothing."""
    places = [(content.find(c), c) for c in family.closers if c in content]
    return content.partition(min(places)[1]) if places else (content, "", "")


def _without_opener(text: str, family: Family) -> str:
    stripped = text.lstrip()
    for opener in sorted(family.openers, key=len, reverse=True):
        if stripped.startswith(opener):
            return stripped.removeprefix(opener)
    return text
