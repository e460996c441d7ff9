"""What every task family shares: the instance, its identity and heavy-tailed sizes."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]
Split = Literal["train", "eval", "demo"]

_INTEGER = re.compile(r"-?\d+")

SYSTEM_PROMPTS: tuple[str, ...] = (
    "You are a helpful assistant.",
    "You are a careful assistant. Think first, then answer.",
    "Answer briefly.",
    "You are a small model that likes to be exact.",
)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str

    def as_dict(self) -> dict[str, str]:
        """The turn as the chat template takes it."""
        return {"role": self.role, "content": self.content}


@dataclass(frozen=True, slots=True)
class Instance:
    """One task: a conversation that ends with the turn to answer, and a reference answer.

    ``answer`` is the canonical form that the family's checker compares with; its meaning is the
    family's own. ``content`` of a tool call holds the call as text, as the model writes it.
    """

    family: str
    kind: str
    messages: tuple[Message, ...]
    reasoning: str
    content: str
    answer: str
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Identity by what the model is shown: two instances with the same prompt have the same key
        (hex)."""
        shown = [[m.role, m.content] for m in self.messages]
        text = json.dumps([shown, list(self.tools)], ensure_ascii=False, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def conversation(self) -> list[dict[str, str]]:
        """The messages up to the turn to answer, as the chat template takes them."""
        return [m.as_dict() for m in self.messages]

    def output(self) -> str:
        """What the model writes after a prompt that ends inside the open thought, without the
        end-of-turn token."""
        return f"{self.reasoning}\n</think>\n\n{self.content}"


def heavy_tail(rng: random.Random, median: float, sigma: float, low: int, high: int) -> int:
    """A lognormal integer with this median and log-width, redrawn until it lies in ``[low, high]``.

    Redrawn and not clipped: clipping would pile up instances of exactly the largest size.
    """
    while True:
        value = round(rng.lognormvariate(math.log(median), sigma))
        if low <= value <= high:
            return value


def integers(text: str) -> list[int]:
    """All integers in the text, in order."""
    return [int(found) for found in _INTEGER.findall(text)]


def last_integer(text: str) -> int | None:
    """The last integer in the text, or None."""
    found = integers(text)
    return found[-1] if found else None


def with_system(rng: random.Random, messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, in two of five cases behind a system prompt."""
    if rng.random() < 0.4:
        return (Message("system", rng.choice(SYSTEM_PROMPTS)), *messages)
    return tuple(messages)


def ask(rng: random.Random, question: str) -> tuple[Message, ...]:
    """A one-turn conversation, sometimes with a system prompt."""
    return with_system(rng, [Message("user", question)])
