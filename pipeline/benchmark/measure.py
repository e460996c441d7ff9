"""Measurements of one server: what was asked, what came back, kept so that a restart goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eagle_tui.config.model import ServerSection
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.jsonl import Appender

from ..worker import Worker
from .client import ask, flush_cache
from .figures import COPY, Accept, Timed
from .prompts import Prompt
from .serving import Server, ServerError

_WARM_UP = 4
"""Requests before the clock runs, at least; as many as run at a time, at most all."""


@dataclass(frozen=True)
class Answer:
    """One request."""

    id: str
    dataset: str
    ids: tuple[int, ...]
    seconds: float
    rounds: int
    """Passes of verification; 0 without a drafter, or when they are not told."""
    taken: tuple[int, ...]
    """`taken[i]` rounds accepted i drafts."""

    @property
    def timed(self) -> Timed:
        return Timed(self.id, self.dataset, len(self.ids), self.seconds)


@dataclass(frozen=True)
class Measurement:
    """All prompts on one server at one concurrency."""

    variant: str
    """Names the flags of the server."""
    concurrency: int
    wall_s: float
    answers: tuple[Answer, ...]
    gaps: dict[str, list[float]] = field(default_factory=dict)
    """As `Gaps.by_prompt`, where it was asked for."""
    noise: float = 0.0

    @property
    def tok_s(self) -> float:
        """Tokens per second of all requests together."""
        return sum(len(a.ids) for a in self.answers) / self.wall_s if self.wall_s > 0 else 0.0

    def accept(self, steps: int, dataset: str | None = None) -> Accept:
        """Rounds of all answers, or those of a dataset. As in SGLang, the tokens are all that a
        request gave, the one that came with the prompt included."""
        total = Accept()
        for answer in self.answers:
            if answer.rounds and dataset in (None, answer.dataset):
                total.add_counts(len(answer.ids), answer.rounds, answer.taken, steps)
        return total

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Measurement:
        answers = tuple(
            Answer(
                a["id"], a["dataset"], tuple(a["ids"]), a["seconds"], a["rounds"], tuple(a["taken"])
            )
            for a in body["answers"]
        )
        return cls(
            body["variant"],
            body["concurrency"],
            body["wall_s"],
            answers,
            body.get("gaps") or {},
            body.get("noise") or 0.0,
        )


class Kept:
    """Measurements on disk, of this benchmark only: its `key` names prompts, settings, inputs."""

    def __init__(self, path: Path, key: str) -> None:
        self._key = key
        self._found: dict[tuple[str, int], Measurement] = {}
        for row in jsonl.rows(path):
            if row.get("key") == key:
                one = Measurement.from_json(row)
                self._found[one.variant, one.concurrency] = one
        if not self._found:
            path.unlink(missing_ok=True)
        self._out = Appender(path)

    def get(self, variant: str, concurrency: int) -> Measurement | None:
        """What was measured before."""
        return self._found.get((variant, concurrency))

    def add(self, one: Measurement) -> None:
        """Keep a measurement; on disk when this returns."""
        self._out.append({"key": self._key, **one.to_json()})
        self._out.sync()
        self._found[one.variant, one.concurrency] = one

    def close(self) -> None:
        """Close the file."""
        self._out.close()


def sampling(worker: Worker) -> dict[str, Any]:
    """Sampling parameters of every request: greedy, or as in the generate phase at the temperature
    of [bench]."""
    bench, generate = worker.config.bench, worker.config.generate
    found: dict[str, Any] = {
        "temperature": bench.temperature,
        "max_new_tokens": bench.max_new_tokens,
    }
    if bench.temperature > 0:
        found |= {"top_p": generate.top_p, "top_k": generate.top_k, "min_p": generate.min_p}
    return found


def requests_for(prompts: Sequence[Prompt], concurrency: int) -> list[Prompt]:
    """The prompts, again and again until there are two for each place: fewer would end with a
    server that is half idle."""
    copies = max(1, -(-2 * concurrency // len(prompts)))
    return [
        Prompt(p.id if copy == 0 else f"{p.id}{COPY}{copy}", p.dataset, p.ids)
        for copy in range(copies)
        for p in prompts
    ]


def measure(
    worker: Worker,
    server: Server,
    section: ServerSection,
    variant: str,
    prompts: Sequence[Prompt],
    concurrency: int,
    answered: Callable[[Answer], None],
) -> Measurement:
    """Warm the server up, empty its cache, and ask every prompt. ServerError or Stopped."""
    wanted = requests_for(prompts, concurrency)
    params = sampling(worker)
    bodies = [{"input_ids": list(p.ids), "sampling_params": params} for p in wanted]
    answers: dict[int, Answer] = {}

    async def ignore(_: int, __: dict[str, Any], ___: float) -> None:
        return

    async def take(place: int, body: dict[str, Any], seconds: float) -> None:
        answers[place] = _answer(wanted[place], body, seconds)
        answered(answers[place])

    async def run() -> float:
        warm = bodies[: max(_WARM_UP, min(concurrency, len(bodies)))]
        await ask(worker, server, section, warm, concurrency, ignore)
        await asyncio.to_thread(flush_cache, server, section, worker.clock)
        began = worker.clock.monotonic()
        await ask(worker, server, section, bodies, concurrency, take)
        return worker.clock.monotonic() - began

    wall_s = asyncio.run(run())
    return Measurement(
        variant, concurrency, wall_s, tuple(answers[place] for place in range(len(wanted)))
    )


@dataclass(frozen=True)
class Gaps:
    """How sure the target is of each token of its greedy answers, in logits."""

    by_prompt: dict[str, list[float]]
    """Prompt → how far the best token is ahead of the second, at each token of the answer."""
    noise: float
    """The furthest that a token of an answer is behind the best one when the whole answer is read
    at once: both are the target's own choice, so this is what rounding makes."""


def ask_gaps(
    worker: Worker,
    server: Server,
    section: ServerSection,
    prompts: Sequence[Prompt],
    answers: Sequence[Answer],
) -> Gaps:
    """Let the target read each answer after its prompt; the further copies of a prompt are left
    out. Not timed: log-probabilities slow a server down."""
    ids = {p.id: p.ids for p in prompts}
    wanted = [a for a in answers if a.id in ids]
    bodies: list[dict[str, Any]] = [
        {
            "input_ids": [*ids[a.id], *a.ids],
            "sampling_params": {"temperature": 0, "max_new_tokens": 1},
            "return_logprob": True,
            "top_logprobs_num": 2,
            "logprob_start_len": len(ids[a.id]) - 1,
        }
        for a in wanted
    ]
    found: dict[str, list[float]] = {}
    noise = 0.0

    async def take(place: int, body: dict[str, Any], _: float) -> None:
        nonlocal noise
        meta, answer = body["meta_info"], wanted[place]
        # The first entry belongs to the prompt's last token, of which nothing is asked.
        best = (meta.get("input_top_logprobs") or [])[1:]
        own = (meta.get("input_token_logprobs") or [])[1:]
        if len(best) != len(answer.ids) or len(own) != len(answer.ids):
            return
        found[answer.id] = [
            round(float(pair[0][0]) - float(pair[1][0]), 4) if pair and len(pair) > 1 else 1e9
            for pair in best
        ]
        behind = [float(p[0][0]) - float(o[0]) for p, o in zip(best, own, strict=True) if p and o]
        noise = max([noise, *behind])

    asyncio.run(ask(worker, server, section, bodies, 4, take))
    return Gaps(found, round(noise, 4))


def _answer(prompt: Prompt, body: dict[str, Any], seconds: float) -> Answer:
    meta, ids = body["meta_info"], body.get("output_ids")
    if not isinstance(ids, list) or not ids:
        raise ServerError(f"an answer without output_ids: {str(body)[:200]}")
    # The older name is an alias where both are told.
    taken = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram") or []
    return Answer(
        prompt.id,
        prompt.dataset,
        tuple(int(i) for i in ids),
        seconds,
        rounds_of(meta, len(ids)),
        tuple(int(n) for n in taken),
    )


def rounds_of(meta: dict[str, Any], tokens: int) -> int:
    """Passes of verification of an answer of so many tokens, as its `meta_info` tells them, or as
    they follow from the accept length (tokens over passes); 0 where neither is told."""
    if rounds := int(meta.get("spec_verify_ct") or 0):
        return rounds
    length = float(meta.get("spec_accept_length") or 0.0)
    return round(tokens / length) if length > 0 else 0
