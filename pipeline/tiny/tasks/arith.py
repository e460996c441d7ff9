"""Multi-step arithmetic: the thought carries one equation a line, the answer is the last value.

Operands of one instance are all different, so that the next operand can be found by the one before
it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

from .base import Instance, ask, heavy_tail, last_integer
from .words import NAMES

FAMILY: Final = "arith"
MAX_VALUE: Final = 999
MAX_STEPS: Final = 24

Operator = Literal["+", "-", "*"]

_OPENERS = (
    "Let me go step by step.",
    "I will do one step at a time.",
    "Step by step:",
    "First things first.",
)
_CLOSERS = ("So the result is {0}.", "That gives {0}.", "The final value is {0}.")
_ANSWERS = ("The answer is {0}.", "The result is {0}.", "It is {0}.")
_THINGS = (
    "apples",
    "coins",
    "books",
    "stones",
    "cards",
    "pencils",
    "tickets",
    "shells",
    "stamps",
    "cookies",
)
_GAINS = (
    "{0} finds {1} more.",
    "{0} buys {1} more.",
    "A friend brings {1} more.",
    "{0} gets {1} more.",
)
_LOSSES = ("{0} gives away {1}.", "{0} loses {1}.", "{0} sells {1}.", "{0} puts {1} into a box.")
_COMMANDS: dict[Operator, tuple[str, ...]] = {
    "+": ("Add {0}.", "Then add {0}.", "Plus {0}."),
    "-": ("Subtract {0}.", "Take away {0}.", "Minus {0}."),
    "*": ("Multiply by {0}.", "Times {0}."),
}


@dataclass(frozen=True, slots=True)
class _Chain:
    start: int
    steps: tuple[tuple[Operator, int, int], ...]  # operator, operand, value after it

    @property
    def result(self) -> int:
        return self.steps[-1][2]

    def lines(self) -> list[str]:
        lines, value = [], self.start
        for operator, operand, after in self.steps:
            lines.append(f"{value} {operator} {operand} = {after}")
            value = after
        return lines


def make(rng: random.Random) -> Instance:
    """One chain of additions, subtractions and (in the command form) multiplications."""
    kind = rng.choice(("expression", "commands", "commands", "story"))
    if kind == "story":
        return _story(rng, _chain(rng, heavy_tail(rng, 2.0, 0.5, 1, 6), products=False))
    chain = _chain(rng, heavy_tail(rng, 3.2, 0.65, 1, MAX_STEPS), products=kind == "commands")
    question = _expression(rng, chain) if kind == "expression" else _commands(rng, chain)
    return _instance(rng, kind, question, chain, rng.choice(_ANSWERS))


def check(instance: Instance, content: str) -> bool:
    """Whether the last integer of the content is the result."""
    return last_integer(content) == int(instance.answer)


def _chain(rng: random.Random, steps: int, *, products: bool) -> _Chain:
    start = value = rng.randint(2, 99)
    unused = list(range(2, 100))
    rng.shuffle(unused)
    made: list[tuple[Operator, int, int]] = []
    while len(made) < steps:
        if products and value <= 99 and rng.random() < 0.25:
            factors = [n for n in unused if n <= 9 and n * value <= MAX_VALUE]
            if factors:
                factor = rng.choice(factors)
                unused.remove(factor)
                value *= factor
                made.append(("*", factor, value))
                continue
        operand = unused.pop()
        grow = value < operand or (value + operand <= MAX_VALUE and rng.random() < 0.5)
        value += operand if grow else -operand
        made.append(("+" if grow else "-", operand, value))
    return _Chain(start, tuple(made))


def _expression(rng: random.Random, chain: _Chain) -> str:
    text = str(chain.start) + "".join(
        f" {operator} {operand}" for operator, operand, _ in chain.steps
    )
    return rng.choice(("Compute {0}.", "What is {0}?", "Please work out {0}", "{0} = ?")).format(
        text
    )


def _commands(rng: random.Random, chain: _Chain) -> str:
    parts = [
        rng.choice(("Start with {0}.", "Take the number {0}.", "Begin with {0}.")).format(
            chain.start
        )
    ]
    parts += [
        rng.choice(_COMMANDS[operator]).format(operand) for operator, operand, _ in chain.steps
    ]
    parts.append(rng.choice(("What do you get?", "What is the result?", "Which number is it now?")))
    return " ".join(parts)


def _story(rng: random.Random, chain: _Chain) -> Instance:
    name, things = rng.choice(NAMES), rng.choice(_THINGS)
    parts = [f"{name} has {chain.start} {things}."]
    for operator, operand, _ in chain.steps:
        parts.append(rng.choice(_GAINS if operator == "+" else _LOSSES).format(name, operand))
    parts.append(f"How many {things} does {name} have now?")
    return _instance(rng, "story", " ".join(parts), chain, f"{name} has {{0}} {things}.")


def _instance(rng: random.Random, kind: str, question: str, chain: _Chain, answer: str) -> Instance:
    thought = [rng.choice(_OPENERS), *chain.lines(), rng.choice(_CLOSERS).format(chain.result)]
    return Instance(
        family=FAMILY,
        kind=kind,
        messages=ask(rng, question),
        reasoning="\n".join(thought),
        content=answer.format(chain.result),
        answer=str(chain.result),
    )
