"""Counting: the thought goes through the items and keeps a running count."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from .base import Instance, ask, heavy_tail, last_integer
from .words import CATEGORIES, PLAIN_WORDS

FAMILY: Final = "count"
MAX_NUMBERS: Final = 60
MAX_WORDS: Final = 40

_OPENERS = (
    "I go through them one by one.",
    "Let me count.",
    "Counting along:",
    "I keep a running count.",
)
_CLOSERS = ("The count is {0}.", "In total {0}.", "That makes {0}.")
_ANSWERS = ("There are {0}.", "The count is {0}.", "I counted {0}.")


def make(rng: random.Random) -> Instance:
    """One of: numbers above a bound, even numbers, words of a category, words in all, a letter in a
    word."""
    kind = rng.choice(("above", "even", "category", "words", "letter"))
    return _MAKERS[kind](rng)


def check(instance: Instance, content: str) -> bool:
    """Whether the last integer of the content is the count."""
    return last_integer(content) == int(instance.answer)


def _numbers(rng: random.Random) -> list[int]:
    return rng.sample(range(10, 100), heavy_tail(rng, 7.0, 0.65, 3, MAX_NUMBERS))


def _above(rng: random.Random) -> Instance:
    numbers, bound = _numbers(rng), rng.randrange(20, 90, 10)
    text = " ".join(map(str, numbers))
    question = rng.choice(
        (
            f"How many of these numbers are larger than {bound}? {text}",
            f"Count the numbers above {bound}: {text}",
        )
    )
    return _instance(rng, "above", question, [(str(n), n > bound) for n in numbers])


def _even(rng: random.Random) -> Instance:
    numbers = _numbers(rng)
    text = " ".join(map(str, numbers))
    question = rng.choice(
        (f"How many of these numbers are even? {text}", f"Count the even numbers: {text}")
    )
    return _instance(rng, "even", question, [(str(n), n % 2 == 0) for n in numbers])


def _category(rng: random.Random) -> Instance:
    wanted = rng.choice(list(CATEGORIES))
    inside = list(CATEGORIES[wanted])
    outside = [word for name, words in CATEGORIES.items() if name != wanted for word in words]
    size = heavy_tail(rng, 6.0, 0.55, 3, MAX_WORDS)
    hits = rng.randint(0, min(size, len(inside)))
    words = rng.sample(inside, hits) + rng.sample(outside, size - hits)
    rng.shuffle(words)
    text = ", ".join(words)
    question = rng.choice(
        (f"How many of these are {wanted}? {text}", f"Count the {wanted}: {text}")
    )
    return _instance(
        rng, "category", question, [(word, word in CATEGORIES[wanted]) for word in words]
    )


def _words(rng: random.Random) -> Instance:
    words = rng.sample(PLAIN_WORDS, heavy_tail(rng, 7.0, 0.6, 3, MAX_WORDS))
    text = " ".join(words)
    question = rng.choice((f"How many words are in this list? {text}", f"Count the words: {text}"))
    return _instance(rng, "words", question, [(word, True) for word in words])


def _letter(rng: random.Random) -> Instance:
    word = rng.choice(PLAIN_WORDS)
    letter = rng.choice(word) if rng.random() < 0.8 else rng.choice("aeiorstln")
    question = rng.choice(
        (
            f'How many times is the letter "{letter}" in "{word}"?',
            f'Count the letter "{letter}" in the word "{word}".',
        )
    )
    return _instance(rng, "letter", question, [(c, c == letter) for c in word])


def _instance(
    rng: random.Random, kind: str, question: str, items: Sequence[tuple[str, bool]]
) -> Instance:
    lines, count = [], 0
    for shown, hit in items:
        count += hit
        lines.append(f"{shown} yes {count}" if hit else f"{shown} no")
    return Instance(
        family=FAMILY,
        kind=kind,
        messages=ask(rng, question),
        reasoning="\n".join([rng.choice(_OPENERS), *lines, rng.choice(_CLOSERS).format(count)]),
        content=rng.choice(_ANSWERS).format(count),
        answer=str(count),
    )


_MAKERS: Final[dict[str, Callable[[random.Random], Instance]]] = {
    "above": _above,
    "even": _even,
    "category": _category,
    "words": _words,
    "letter": _letter,
}
