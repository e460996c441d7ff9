"""The request for one prompt, or why none is needed. Pure."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from eagle_tui.config.model import GenerateSection

from .answers import Finish
from .fastjson import dumps
from .jobs import Job
from .policy import Dead
from .prompts import Prompt

LAST_TOKENS = 2
"""Prompt and response together stay so far below the context: SGLang answers no further."""
INPUT_TOKENS = 6
"""What is sent stays so far below the context: SGLang refuses a longer input."""


@dataclass(frozen=True, slots=True)
class Request:
    """Ready to be sent."""

    rid: str
    body: bytes
    asked: int
    """max_new_tokens of this request."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The tokens so far are a whole answer already."""

    finish: Finish


def sampling_params(settings: GenerateSection) -> dict[str, Any]:
    """The sampling settings in SGLang's words. All are given: its defaults are not the model's."""
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "min_p": settings.min_p,
        # Markers of a thought may be special tokens; they must stay in the text.
        "skip_special_tokens": False,
    }


def new_rid() -> str:
    """A request id: fresh for each attempt, and of fixed width, since a server matches them by
    prefix when it aborts."""
    return uuid.uuid4().hex


def ended(so_far: array[int] | None, longest: int, eos_ids: Set[int]) -> Ended | None:
    """Are the tokens so far a whole answer: do they end the turn, or are they all we ask for?"""
    if so_far:
        if so_far[-1] in eos_ids:
            return Ended("stop")
        if len(so_far) >= longest:
            return Ended("length")
    return None


def build(
    prompt: Prompt,
    job: Job,
    *,
    longest: int,
    context: int | None,
    vocabulary: int,
    eos_ids: Set[int],
    sampling: dict[str, Any],
    journal: int = 0,
) -> Request | Ended | Dead:
    """The request that makes or continues the prompt's response.

    `longest`: tokens that a response may have; `context`: tokens of prompt and response together
    (None: not known); `journal`: one that may get longer than this is streamed, with an event each
    time so many tokens are new (0: never). An empty prompt and an id outside the vocabulary would
    kill a server.
    """
    ids = prompt.prompt_ids
    if not ids:
        return Dead("failed", "the prompt has no tokens")
    if min(ids) < 0 or max(ids) >= vocabulary:
        return Dead("failed", f"the prompt holds a token id outside 0..{vocabulary - 1}")
    if context is not None:
        if len(ids) > context - INPUT_TOKENS:
            return Dead(
                "over_context",
                f"the prompt has {len(ids):,} tokens and the context {context:,}: no room for a "
                "response",
            )
        longest = min(longest, context - LAST_TOKENS - len(ids))
    if (whole := ended(job.so_far, longest, eos_ids)) is not None:
        return whole
    so_far = job.so_far.tolist() if job.so_far else []
    if so_far and context is not None and len(ids) + len(so_far) > context - INPUT_TOKENS:
        return Ended("length")  # it would be refused, for the few tokens that are missing
    asked = longest - len(so_far)
    rid = new_rid()
    params = {**sampling, "max_new_tokens": asked}
    streamed = 0 < journal < asked
    if streamed:
        params["stream_interval"] = journal
    body = {
        "rid": rid,
        "input_ids": ids + so_far,
        "sampling_params": params,
        "stream": streamed,
    }
    return Request(rid, dumps(body), asked)
