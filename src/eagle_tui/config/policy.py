"""`[generate.policy]`: what becomes of each state that is no success."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from eagle_tui.config.section import Section

MOST_RETRIES = 100
_RULE = re.compile(r"(keep|drop)|retry (\d{1,3})( then drop)?")


class Rule(NamedTuple):
    """A rule taken apart."""

    retries: int
    """Attempts after the first."""
    drop: bool
    """When these are used up: dead letter, though there is an answer that could be stored."""


def parse(text: str) -> Rule:
    """`keep`, `drop`, `retry N` or `retry N then drop`. ValueError: it is none of these."""
    match = _RULE.fullmatch(text)
    retries = int(match[2] or 0) if match else MOST_RETRIES + 1
    if match is None or retries > MOST_RETRIES:
        raise ValueError(
            f"expected keep, drop, retry N or retry N then drop, N at most {MOST_RETRIES}; "
            f"found {text!r}"
        )
    return Rule(retries, match[1] == "drop" or match[3] is not None)


def _answer_rule(text: str) -> str:
    parse(text)
    return text


def _request_rule(text: str) -> str:
    rule = parse(text)
    if text == "keep" or (rule.drop and text != "drop"):
        raise ValueError(
            f"expected drop or retry N: there is no answer that could be kept; found {text!r}"
        )
    return text


AnswerRule = Annotated[str, AfterValidator(_answer_rule)]
RequestRule = Annotated[str, AfterValidator(_request_rule)]


class PolicySection(Section):
    """What becomes of an answer or a request that is no success. `keep` stores it under its state;
    `retry N` asks again, N times at most, and keeps the last one; `retry N then drop` and `drop`
    send it to the dead letters, where it counts as its state. A prompt that does not fit into the
    context is always a dead letter at once."""

    truncated: AnswerRule = "keep"
    """Cut at its longest length."""
    no_answer: AnswerRule = "retry 1"
    """Reasoning without content, or nothing at all."""
    loop: AnswerRule = "keep"
    """Ends in the same few tokens again and again."""
    failed: RequestRule = "retry 3"
    """The server answered with an error. A server that went away does not count."""
    aborted: RequestRule = "retry 3"
    """Ended on the server by somebody else. The tokens that it had are kept and continued."""
