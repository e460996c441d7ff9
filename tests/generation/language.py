"""A made-up language: what the fake server answers to a prompt is known beforehand.

Ids: END ends a turn, OPEN is the last token of a prompt and begins a thought, CLOSE ends it. All
other tokens are words. An answer begun is continued: what follows OPEN in a request is its start.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

from eagle_tui.config.model import RunConfig
from eagle_tui.pipeline.generation.speech import Speech
from eagle_tui.rundir.paths import RunDir

SCALE = int(os.environ.get("EAGLE_TUI_TEST_SCALE", "1"))
"""Answers are so many times as long, for benchmarks."""
END, OPEN, CLOSE, FIRST_WORD, VOCABULARY = 2, 3, 4, 10, 1000
CONTEXT = 4096 * SCALE


def answer_to(prompt_ids: Sequence[int]) -> list[int]:
    """The whole answer to a prompt that ends with OPEN: 4 to some hundred tokens, heavy-tailed."""
    digest = hashlib.sha256(repr(list(prompt_ids)).encode()).digest()
    rng = random.Random(digest)
    thought = 1 + min(16_000, SCALE * min(400, int(rng.paretovariate(1.2) * 4)))
    words = [rng.randrange(FIRST_WORD, VOCABULARY) for _ in range(thought + rng.randrange(1, 8))]
    return [*words[:thought], CLOSE, *words[thought:], END]


def prompt_of(dataset: str, number: int, words: int = 8) -> list[int]:
    """A prompt; no two are alike."""
    rng = random.Random(f"{dataset}/{number}")
    tail = [FIRST_WORD + int(digit) for digit in f"{number:06d}"]
    return [*(rng.randrange(FIRST_WORD, VOCABULARY) for _ in range(words)), *tail, OPEN]


@dataclass(frozen=True)
class Told:
    reasoning: str
    content: str
    reasoning_tokens: int
    flag: str = ""


def text_of(ids: Sequence[int]) -> str:
    return " ".join(f"w{i}" for i in ids)


def split(output_ids: Sequence[int], opened: bool) -> Told:
    """Thought and answer by the closing token."""
    ids = [i for i in output_ids if i != END]
    if not opened:
        return Told("", text_of(ids), 0)
    if CLOSE not in ids:
        return Told(text_of(ids), "", len(ids), "unclosed")
    at = ids.index(CLOSE)
    return Told(text_of(ids[:at]), text_of(ids[at + 1 :]), at)


def speech(config: RunConfig | None = None, run: RunDir | None = None) -> Speech:
    """As `load_speech`, without a tokenizer, so that a worker starts at once."""
    return Speech(split, frozenset((END,)), VOCABULARY, CONTEXT, reasons=True)
