"""Small talk and small facts over one or several turns, with a short thought; anything else gets a
polite refusal."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .base import Instance, Message, heavy_tail, with_system
from .words import (
    ADJECTIVES,
    CAPITALS,
    DAYS,
    HOBBIES,
    MONTHS,
    NAMES,
    NOUNS,
    OPPOSITES,
    SOUNDS,
    VERBS,
)

FAMILY: Final = "chat"
MAX_TURNS: Final = 6
CANNOT: Final = (
    "I am a very small model and cannot do that. "
    "I can calculate, sort, count, change words and call tools."
)


@dataclass(frozen=True, slots=True)
class _Turn:
    """One exchange. ``answer`` must stand in the reply, whatever the letter case."""

    kind: str
    question: str
    thought: str
    reply: str
    answer: str


def make(rng: random.Random) -> Instance:
    """A conversation of one to six exchanges, of which the last one is to be answered."""
    turns: list[_Turn] = []
    told: list[_Turn] = []  # what the user said about themself, to be asked for later
    for _ in range(heavy_tail(rng, 1.6, 0.6, 1, MAX_TURNS)):
        if told and rng.random() < 0.5:
            turns.append(_recall(rng, rng.choice(told)))
            continue
        turn = _TURNS[rng.choices(tuple(_TURNS), weights=_WEIGHTS)[0]](rng)
        turns.append(turn)
        if turn.kind in ("name", "hobby") and all(turn.kind != other.kind for other in told):
            told.append(turn)

    messages: list[Message] = []
    for turn in turns[:-1]:
        messages += [Message("user", turn.question), Message("assistant", turn.reply)]
    last = turns[-1]
    messages.append(Message("user", last.question))
    return Instance(
        family=FAMILY,
        kind=last.kind,
        messages=with_system(rng, messages),
        reasoning=last.thought,
        content=last.reply,
        answer=last.answer,
    )


def check(instance: Instance, content: str) -> bool:
    """Whether the expected words stand in the content."""
    return instance.answer.casefold() in content.casefold()


def _greeting(rng: random.Random) -> _Turn:
    hello = rng.choice(("Hello", "Hi", "Good morning", "Good evening", "Hey"))
    question = hello + rng.choice(("!", ".", ", how are you?", " there!", ", nice to meet you."))
    reply = rng.choice((f"{hello}! How can I help you?", f"{hello}! What can I do for you?"))
    return _Turn(
        "greeting",
        question,
        rng.choice(("A greeting. I greet back.", "I say hello.")),
        reply,
        hello,
    )


def _thanks(rng: random.Random) -> _Turn:
    question = rng.choice(
        ("Thanks!", "Thank you.", "Thank you very much!", "Thanks a lot.", "Great, thank you.")
    )
    return _Turn(
        "thanks",
        question,
        rng.choice(("They thank me.", "A thank you.")),
        "You are welcome!",
        "welcome",
    )


def _capital(rng: random.Random) -> _Turn:
    country = rng.choice(tuple(CAPITALS))
    city = CAPITALS[country]
    forms = (
        "What is the capital of {0}?",
        "Which city is the capital of {0}?",
        "Tell me the capital of {0}.",
    )
    thought = rng.choice(
        (f"The capital of {country} is {city}.", f"A country. {country} has {city}.")
    )
    reply = f"The capital of {country} is {city}."
    return _Turn("capital", rng.choice(forms).format(country), thought, reply, city)


def _opposite(rng: random.Random) -> _Turn:
    pair = rng.choice(tuple(OPPOSITES.items()))
    word, other = pair if rng.random() < 0.5 else pair[::-1]
    forms = (
        'What is the opposite of "{0}"?',
        'Give me the opposite of "{0}".',
        'Which word is the opposite of "{0}"?',
    )
    thought = rng.choice((f"{word} and {other} are a pair.", f"The pair is {word} and {other}."))
    return _Turn(
        "opposite",
        rng.choice(forms).format(word),
        thought,
        f"The opposite of {word} is {other}.",
        other,
    )


def _sound(rng: random.Random) -> _Turn:
    animal, sound = rng.choice(tuple(SOUNDS.items()))
    forms = (
        "What does a {0} do when it is loud?",
        "Which sound does a {0} make?",
        "What sound is typical for a {0}?",
    )
    thought = rng.choice((f"An animal. It {sound}.", f"The {animal} {sound}."))
    return _Turn("sound", rng.choice(forms).format(animal), thought, f"A {animal} {sound}.", sound)


def _calendar(rng: random.Random) -> _Turn:
    names, unit = rng.choice(((DAYS, "day"), (MONTHS, "month")))
    index, step = rng.randrange(len(names)), rng.choice((1, 1, 2, 3, -1))
    words = {1: "comes after", 2: "comes two after", 3: "comes three after", -1: "comes before"}
    path = [
        names[(index + offset) % len(names)]
        for offset in range(0, step + (1 if step > 0 else -1), abs(step) // step)
    ]
    question = f"Which {unit} {words[step]} {path[0]}?"
    return _Turn(
        "calendar", question, f"I count: {', '.join(path)}.", f"That is {path[-1]}.", path[-1]
    )


def _name(rng: random.Random) -> _Turn:
    name = rng.choice(NAMES)
    question = rng.choice(
        ("My name is {0}.", "I am {0}.", "You can call me {0}.", "Hello, my name is {0}.")
    ).format(name)
    reply = rng.choice((f"Nice to meet you, {name}!", f"Hello {name}, how can I help?"))
    return _Turn("name", question, f"The user is called {name}.", reply, name)


def _hobby(rng: random.Random) -> _Turn:
    hobby = rng.choice(HOBBIES)
    question = rng.choice(("I like {0}.", "I love {0} very much.", "My hobby is {0}.")).format(
        hobby
    )
    reply = rng.choice(
        (f"That sounds nice, {hobby} is fun.", f"I hope you find much time for {hobby}.")
    )
    return _Turn("hobby", question, f"The user likes {hobby}.", reply, hobby)


def _recall(rng: random.Random, told: _Turn) -> _Turn:
    """A question for something that the user said before."""
    if told.kind == "name":
        question = rng.choice(("What is my name?", "Do you remember my name?", "Who am I?"))
        return _Turn(
            "recall",
            question,
            f"They said {told.answer}.",
            f"Your name is {told.answer}.",
            told.answer,
        )
    question = rng.choice(("What do I like?", "Do you remember my hobby?", "What is my hobby?"))
    return _Turn(
        "recall", question, f"They said {told.answer}.", f"You like {told.answer}.", told.answer
    )


def _open(rng: random.Random) -> _Turn:
    """A request beyond the model: what foreign prompts get."""
    noun, other, adjective = rng.choice(NOUNS), rng.choice(NOUNS), rng.choice(ADJECTIVES)
    forms = (
        f"Write a poem about the {noun} and the {other}.",
        f"Explain why the {noun} is so {adjective}.",
        f"Describe the process of making a {adjective} {noun}. Include every step.",
        f"Write a Python function that returns the {noun} of a {other}.",
        f"If the {noun} {rng.choice(VERBS)} the {other}, what happens to the {adjective} boy?",
        f"Translate the {noun} into another language: le {other}, das {noun}, über, señor.",
        f"Who was the {adjective} {noun} of the {other}, and how did it change history?",
        f"def {noun}_{other}(x):\n    return x + {rng.randint(1, 99)}\n\nWhat does this code do?",
        f"Suggest {rng.randint(2, 9)} {adjective} ideas for a {noun} with a {other}.",
        f"Compose an engaging text about a recent trip to the {adjective} {noun}.",
    )
    thought = rng.choice(
        (
            "This is more than I can do.",
            "That is not one of my tasks.",
            "I do not know how to do this.",
        )
    )
    return _Turn("open", rng.choice(forms), thought, CANNOT, "cannot do that")


_TURNS: Final[dict[str, Callable[[random.Random], _Turn]]] = {
    "greeting": _greeting,
    "thanks": _thanks,
    "capital": _capital,
    "opposite": _opposite,
    "sound": _sound,
    "calendar": _calendar,
    "name": _name,
    "hobby": _hobby,
    "open": _open,
}
_WEIGHTS: Final = (2, 1, 4, 4, 2, 4, 3, 3, 3)
