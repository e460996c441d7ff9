"""Try again, keep or give up. Pure, but for the counts on the job.

| trouble | sent again | counts as a try | the endpoint |
| --- | --- | --- | --- |
| refused | when a server is there | no | out until it answers |
| dropped, lost | yes (the first drop at once: a keep-alive race) | no, LOSSES in all | probed |
| busy, unavailable | after a growing wait | no, but see below | takes fewer requests |
| unauthorised, wrong_server | when a server is there | no | out, with the reason |
| server_error, garbled | as `policy.failed` says, plain text once | yes | as it is |
| rejected | once | no | as it is |
| over_context | no | | as it is |

502 and 504 come from a router whose worker broke off or was silent. Where it answered others
meanwhile, that counts as a loss of this prompt; after PATIENCE of them it is given up anyhow.

An endpoint that answers nothing but the errors that count as tries is to blame for them itself, and
they do not count: see `blame`.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from eagle_tui.config.policy import PolicySection, parse

from .answers import Trouble
from .jobs import Job
from .judge import RowState

LOSSES = 20
"""A prompt whose server went away so often is suspected to bring it down, and given up."""
PATIENCE = 5_000
"""A prompt that a router answers with 502 or 504 so often, for more than a day, is given up, too:
the last one of a run has no others beside it."""
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Again:
    """Send it again, not before `after_s` seconds; 0: as soon as there is room."""

    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Dead:
    """Give it up: a dead letter."""

    state: Literal["failed", "over_context", "aborted"]
    reason: str


def backoff(times: int, rng: Random) -> float:
    """Seconds to wait before attempt number `times` + 1: doubled each time, with jitter."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(times, 16)) * rng.uniform(0.5, 1.0)


def after_trouble(
    job: Job, trouble: Trouble, rules: PolicySection, rng: Random, *, meanwhile: bool = False
) -> Again | Dead:
    """What becomes of a job that got no answer. Counts on the job what happened to it.
    `meanwhile`: the endpoint answered others since it was sent."""
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
        if trouble.status in (502, 504):
            job.losses += meanwhile
            said = f"HTTP {trouble.status} for it"
            if job.losses > LOSSES:
                others = "times while others were answered"
                return Dead("failed", f"{said} {job.losses} {others}: {trouble.message}")
            if job.refusals > PATIENCE:
                return Dead("failed", f"{said} {job.refusals:,} times: {trouble.message}")
        return Again(backoff(job.refusals - 1, rng))
    if kind == "rejected":
        job.rejections += 1
        if job.rejections > 1:
            return Dead("failed", f"refused by the server: {trouble.message}")
        return Again(FIRST_WAIT_S)
    allowed = parse(rules.failed).retries
    if trouble.plain:
        allowed = min(1, allowed)
    return _after_try(job, "failed", trouble.message, allowed, rng)


def after_abort(job: Job, reason: str, rules: PolicySection, rng: Random) -> Again | Dead:
    """What becomes of a job whose request was ended on the server, not by us, without a token
    more."""
    return _after_try(job, "aborted", reason, parse(rules.aborted).retries, rng)


def after_stall(job: Job, reason: str, rules: PolicySection, rng: Random) -> Again | Dead:
    """What becomes of a job whose request made no progress and was ended by us."""
    return _after_try(job, "failed", reason, parse(rules.failed).retries, rng)


def _after_try(
    job: Job, state: Literal["failed", "aborted"], reason: str, allowed: int, rng: Random
) -> Again | Dead:
    """A try that failed; `allowed` more after the first."""
    job.tries += 1
    if job.tries > allowed:
        tries = "1 try" if job.tries == 1 else f"{job.tries} tries"
        return Dead(state, f"given up after {tries}; the last: {reason}")
    return Again(backoff(job.tries - 1, rng))


def after_answer(
    job: Job, state: RowState, rules: PolicySection
) -> Literal["keep", "again", "drop"]:
    """What becomes of a whole answer in this state. Counts on the job those that are not final."""
    if state == "complete":
        return "keep"
    rule = parse(
        {"truncated": rules.truncated, "no_answer": rules.no_answer, "loop": rules.loop}[state]
    )
    if job.repeats.get(state, 0) < rule.retries:
        job.repeats[state] = job.repeats.get(state, 0) + 1
        return "again"
    return "drop" if rule.drop else "keep"
