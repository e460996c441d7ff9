"""Operations on words and letters. The answer stands alone after the colon, so that it can be
compared exactly."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from .base import Instance, ask, heavy_tail
from .words import ADJECTIVES, NOUNS, PLAIN_WORDS, VERBS

FAMILY: Final = "strings"
MAX_WORDS: Final = 40

_OPENERS = (
    "One after the other.",
    "Let me do it piece by piece.",
    "Going through it:",
    "I take them in turn.",
)
_ANSWERS = ("Result: {0}", "Here it is: {0}", "Answer: {0}")


def make(rng: random.Random) -> Instance:
    """One of: spell backwards, capitals, word order reversed, repeats removed, initials, joined,
    word replaced."""
    return _MAKERS[rng.choice(tuple(_MAKERS))](rng)


def check(instance: Instance, content: str) -> bool:
    """Whether what follows the first colon of the content is exactly the answer."""
    _, colon, given = content.partition(":")
    return bool(colon) and given.strip() == instance.answer


def _some_words(rng: random.Random, median: float = 5.0) -> list[str]:
    return rng.sample(PLAIN_WORDS, heavy_tail(rng, median, 0.6, 2, MAX_WORDS))


def _backwards(rng: random.Random) -> Instance:
    word = rng.choice(PLAIN_WORDS)
    if rng.random() < 0.5:
        word += " " + rng.choice(PLAIN_WORDS)
    question = rng.choice(
        ('Spell "{0}" backwards.', 'Write "{0}" backwards, letter by letter.')
    ).format(word)
    parts = word.split(" ")
    # Two words backwards: the second one comes first.
    lines = [f"{' '.join(part)}: {' '.join(reversed(part))}" for part in reversed(parts)]
    answer = " ".join("-".join(reversed(part)) for part in reversed(parts))
    return _instance(rng, "backwards", question, lines, answer)


def _capitals(rng: random.Random) -> Instance:
    words = _some_words(rng, 3.5)
    question = rng.choice(("Write in capitals: {0}", "Change to upper case: {0}")).format(
        " ".join(words)
    )
    lines = [f"{word}: {word.upper()}" for word in words]
    return _instance(rng, "capitals", question, lines, " ".join(words).upper())


def _reorder(rng: random.Random) -> Instance:
    words = _some_words(rng)
    question = rng.choice(
        ("Reverse the order of these words: {0}", "Write these words from last to first: {0}")
    )
    back = words[::-1]
    lines = [f"{number} {word}" for number, word in enumerate(back, start=1)]
    return _instance(rng, "reorder", question.format(" ".join(words)), lines, " ".join(back))


def _dedupe(rng: random.Random) -> Instance:
    distinct = rng.sample(PLAIN_WORDS, heavy_tail(rng, 4.0, 0.4, 2, 10))
    words = distinct + rng.choices(distinct, k=rng.randint(1, max(1, len(distinct) // 2)))
    rng.shuffle(words)
    question = rng.choice(
        ("Remove the repeated words: {0}", "Keep each word only once: {0}")
    ).format(" ".join(words))
    seen: list[str] = []
    lines = []
    for number, word in enumerate(words, start=1):
        lines.append(f"{number} {word} {'again' if word in seen else 'new'}")
        if word not in seen:
            seen.append(word)
    return _instance(rng, "dedupe", question, lines, " ".join(seen))


def _initials(rng: random.Random) -> Instance:
    words = _some_words(rng, 4.0)
    question = rng.choice(
        ("Take the first letter of each word: {0}", "Make initials of: {0}")
    ).format(" ".join(words))
    lines = [f"{word}: {word[0].upper()}" for word in words]
    return _instance(
        rng, "initials", question, lines, "".join(f"{word[0].upper()}." for word in words)
    )


def _join(rng: random.Random) -> Instance:
    words = _some_words(rng)
    mark, name = rng.choice(
        (("-", "a dash"), ("/", "a slash"), ("+", "a plus"), ("_", "an underscore"))
    )
    question = f"Join these words with {name}: {' '.join(words)}"
    lines = [f"The mark is {mark}", f"There are the words {', '.join(words)}."]
    return _instance(rng, "join", question, lines, mark.join(words))


def _replace(rng: random.Random) -> Instance:
    old, other, new = rng.sample(NOUNS, 3)
    words = [
        "the",
        rng.choice(ADJECTIVES),
        old,
        rng.choice(VERBS),
        "the",
        rng.choice(ADJECTIVES),
        other,
    ]
    if rng.random() < 0.5:
        words += ["near", "the", old]
    question = f'Replace "{old}" with "{new}" in: {" ".join(words)}'
    lines = [f"{old} becomes {new}.", "The other words stay."]
    return _instance(
        rng, "replace", question, lines, " ".join(new if word == old else word for word in words)
    )


def _instance(
    rng: random.Random, kind: str, question: str, lines: list[str], answer: str
) -> Instance:
    return Instance(
        family=FAMILY,
        kind=kind,
        messages=ask(rng, question),
        reasoning="\n".join([rng.choice(_OPENERS), *lines]),
        content=rng.choice(_ANSWERS).format(answer),
        answer=answer,
    )


_MAKERS: Final[dict[str, Callable[[random.Random], Instance]]] = {
    "backwards": _backwards,
    "capitals": _capitals,
    "reorder": _reorder,
    "dedupe": _dedupe,
    "initials": _initials,
    "join": _join,
    "replace": _replace,
}
