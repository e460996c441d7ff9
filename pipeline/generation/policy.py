"""Try again or give up. Pure, but for the counts on the job.

| trouble | sent again | counts as a try | the endpoint |
| --- | --- | --- | --- |
| refused | when a server is there | no | out until it answers |
| dropped, lost | yes (the first drop at once: a keep-alive race) | no, LOSSES in all | probed |
| busy, unavailable | after a growing wait | no | takes fewer requests |
| unauthorised, wrong_server | when a server is there | no | out, with the reason |
| server_error, garbled | `retries` times, plain text once | yes | as it is |
| rejected | once | no | as it is |
| over_context | no | | as it is |
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from eagle_tui.config.model import GenerateSection

from .answers import Trouble
from .jobs import Job
from .judge import RowState

LOSSES = 20
"""A prompt whose server went away so often is suspected to bring it down, and given up."""
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Again:
    """Send it again, not before `after_s` seconds; 0: as soon as there is room."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Dead:
    """Give it up: a dead letter."""

    state: Literal["failed", "over_context"]
    reason: str


def backoff(times: int, rng: Random) -> float:
    """Seconds to wait before attempt number `times` + 1: doubled each time, with jitter."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(times, 16)) * rng.uniform(0.5, 1.0)


def after_trouble(
    job: Job, trouble: Trouble, settings: GenerateSection, rng: Random
) -> Again | Dead:
    """What becomes of a job that got no answer. Counts on the job what happened to it."""
    kind = trouble.kind
    if kind == "over_context":
        return Dead("over_context", trouble.message)
    if kind in ("refused", "unauthorised", "wrong_server"):
        return Again()
    if kind in ("dropped", "lost"):
        job.losses += 1
        if job.losses > LOSSES:
            return Dead("failed", f"the connection was lost {job.losses} times: {trouble.message}")
        if kind == "dropped" and not job.raced:
            job.raced = True
            return Again()
        return Again(FIRST_WAIT_S * rng.uniform(0.5, 1.0))
    if kind in ("busy", "unavailable"):
        job.refusals += 1
        return Again(backoff(job.refusals - 1, rng))
    if kind == "rejected":
        job.rejections += 1
        if job.rejections > 1:
            return Dead("failed", f"refused by the server: {trouble.message}")
        return Again(FIRST_WAIT_S)
    allowed = min(1, settings.retries) if trouble.plain else settings.retries
    return after_failure(job, trouble.message, allowed, rng)


def after_failure(job: Job, reason: str, allowed: int, rng: Random) -> Again | Dead:
    """A try that failed; `allowed` more after the first."""
    job.tries += 1
    if job.tries > allowed:
        return Dead("failed", f"{job.tries} tries failed; the last: {reason}")
    return Again(backoff(job.tries - 1, rng))


def keep(job: Job, state: RowState, settings: GenerateSection) -> bool:
    """Is this answer final? Only one without content is asked for again."""
    if state != "no_answer":
        return True
    job.no_answers += 1
    return job.no_answers > settings.no_answer_retries
