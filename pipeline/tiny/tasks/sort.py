"""Sorting numbers by insertion: the thought writes the sorted list again after each number, so it
grows with n²."""

from __future__ import annotations

import bisect
import random
from typing import Final

from .base import Instance, ask, heavy_tail, integers

FAMILY: Final = "sort"
# The longest thoughts are then some 1,200 tokens: n(n+1)/2 numbers of 3 (two digits) or 4 tokens
# each.
MAX_TWO_DIGIT: Final = 26
MAX_THREE_DIGIT: Final = 22

_UP = (
    "Sort these numbers: {0}",
    "Put these numbers in ascending order: {0}",
    "Sort from small to large: {0}",
)
_DOWN = ("Sort these numbers in descending order: {0}", "Sort from large to small: {0}")
_OPENERS = (
    "I insert the numbers one by one.",
    "Let me insert each number where it belongs.",
    "One number at a time.",
)
_CLOSERS = ("All numbers are placed.", "Done, nothing is left.", "That was the last one.")
_ANSWERS = ("Sorted: {0}", "The sorted list is {0}", "Here you are: {0}")


def make(rng: random.Random) -> Instance:
    """A list of different numbers to sort, up or down; its length is heavy-tailed."""
    three_digits = rng.random() < 0.3
    count = heavy_tail(rng, 6.0, 0.65, 3, MAX_THREE_DIGIT if three_digits else MAX_TWO_DIGIT)
    numbers = rng.sample(range(100, 1000) if three_digits else range(10, 100), count)
    down = rng.random() < 0.3
    separator = rng.choice((" ", ", "))
    question = rng.choice(_DOWN if down else _UP).format(separator.join(map(str, numbers)))

    thought = [rng.choice(_OPENERS)]
    placed: list[int] = []
    for number in numbers:
        bisect.insort(placed, number)
        shown = reversed(placed) if down else placed
        thought.append(f"{number}: {' '.join(map(str, shown))}")
    thought.append(rng.choice(_CLOSERS))

    result = sorted(numbers, reverse=down)
    return Instance(
        family=FAMILY,
        kind="down" if down else "up",
        messages=ask(rng, question),
        reasoning="\n".join(thought),
        content=rng.choice(_ANSWERS).format(", ".join(map(str, result))),
        answer=" ".join(map(str, result)),
    )


def check(instance: Instance, content: str) -> bool:
    """Whether the integers of the content are exactly the sorted list."""
    return integers(content) == integers(instance.answer)
