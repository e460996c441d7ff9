"""The life of one request: built, sent, answered, and what becomes of its prompt."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from eagle_tui.clock import Clock
from eagle_tui.config.model import GenerateSection
from eagle_tui.rundir import jsonl

from . import policy, requests
from .answers import Answer, Finish, Outcome, Trouble
from .jobs import Job
from .judge import judge
from .partials import partial_row
from .pool import Member, Pool
from .prompts import Prompt
from .report import Report
from .responses import dead_row, encode, response_row
from .speech import Speech
from .work import DatasetWork
from .writer import Writer

REASONING_LOOK = 20
"""After so many responses of a dataset it is said when none of them holds reasoning."""
Ending = Literal["hold", "drop", "stall"]
"""Why we end a request ourselves. hold, stall: its tokens are kept; drop: they are not."""


@dataclass(eq=False, slots=True)
class Flight:
    """One request in flight."""

    work: DatasetWork
    job: Job
    member: Member
    started: float
    task: asyncio.Task[None] | None = None
    landed: asyncio.Event = field(default_factory=asyncio.Event)
    rid: str = ""
    asked: int = 0
    ending: Ending | None = None

    def ended_by_us(self) -> bool:
        """Do we end it before it has an answer?"""
        return self.ending is not None


Place = tuple[DatasetWork, Member]
"""A dataset that may send, and the endpoint that takes it."""


class Attempts:
    """Runs requests. `next_place` says where the next one may go, and `changed` is called when one
    landed and there is no next."""

    def __init__(
        self,
        *,
        settings: GenerateSection,
        context: int | None,
        speech: Speech,
        writer: Writer,
        pool: Pool,
        report: Report,
        clock: Clock,
        rng: Random,
        made: str,
        next_place: Callable[[], Place | None],
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._context = context
        self._sampling = requests.sampling_params(settings)
        self._speech = speech
        self._writer = writer
        self._pool = pool
        self._report = report
        self._clock = clock
        self._rng = rng
        self._made = made
        self._next_place = next_place
        self._changed = changed
        self.broken: BaseException | None = None
        """What broke the program in a request; None: nothing."""
        self._pools_told: set[str] = set()
        self.flights: set[Flight] = set()

    def fill(self) -> None:
        """Send as much as there are places for."""
        while (flight := self._board()) is not None:
            flight.task = asyncio.get_running_loop().create_task(self._fly(flight))
            flight.task.add_done_callback(self._note_end)

    def _board(self) -> Flight | None:
        """Take the next job, if there is a place for one."""
        place = self._next_place()
        if place is None:
            return None
        work, member = place
        flight = Flight(work, work.take(), member, self._clock.monotonic())
        work.in_flight += 1
        member.in_flight += 1
        self.flights.add(flight)
        return flight

    def _land(self, flight: Flight) -> None:
        flight.work.in_flight -= 1
        flight.member.in_flight -= 1
        self.flights.discard(flight)
        flight.landed.set()

    async def _fly(self, first: Flight) -> None:
        """One request after the other, as long as there is a place: the next one goes out in the
        same step in which an answer came in, so that no server waits for our own work."""
        flight: Flight | None = first
        while flight is not None:
            task = flight.task
            await self._run(flight)
            self._land(flight)
            flight = self._board()
            if flight is not None:
                flight.task = task
        self._changed()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = error
            self._changed()

    async def _run(self, flight: Flight) -> None:
        # Between the answer and what becomes of it nothing is awaited, so that a flight that is
        # cancelled has no answer yet.
        work, job, member = flight.work, flight.job, flight.member
        if flight.ended_by_us():  # before it began
            work.queue.put(job)
            return
        prompt = work.prompts.read(job.index)
        known = member.context or self._speech.context
        context = min((c for c in (known, self._context) if c is not None), default=None)
        request = requests.build(
            prompt,
            job,
            longest=work.limits.max_new_tokens,
            context=context,
            vocabulary=self._speech.vocabulary,
            eos_ids=self._speech.eos_ids,
            sampling=self._sampling,
        )
        job.attempt += 1
        if isinstance(request, policy.Dead):
            self._give_up(flight, prompt, request)
            return
        if isinstance(request, requests.Ended):
            whole = job.so_far or array("I")
            self._finished(flight, prompt, request.finish, whole, len(prompt.prompt_ids), "")
            return
        flight.rid, flight.asked, data = request.rid, request.asked, request.body
        # The prompt is read again when the answer is there: its ids as Python numbers take 36 KB a
        # thousand, and hundreds of requests are in flight for minutes.
        del prompt, request
        assert member.client is not None  # one without is never picked
        try:
            outcome: Outcome = await member.client.generate(data)
        except asyncio.CancelledError:
            if not flight.ended_by_us():
                raise
            assert flight.task is not None
            flight.task.uncancel()
            self._unanswered(flight, work.prompts.read(job.index))
            return
        prompt = work.prompts.read(job.index)
        if isinstance(outcome, Trouble):
            self._troubled(flight, prompt, outcome)
        elif outcome.finish == "abort":
            self._aborted(flight, prompt, outcome)
        else:
            self._pool.success(member)
            self._answered(flight, prompt, outcome, outcome.finish)

    def _answered(
        self, flight: Flight, prompt: Prompt, answer: Answer, finish: Literal["stop", "length"]
    ) -> None:
        job = flight.job
        flag = ""
        if finish == "length" and answer.length is not None and answer.length < flight.asked:
            flag = "pool"
            self._tell_small_pool(flight.member.name, len(prompt.prompt_ids), answer.length)
        whole = answer.output_ids if job.so_far is None else job.so_far + answer.output_ids
        first = answer.prompt_tokens if job.so_far is None else None
        job.pieces += 1
        self._finished(flight, prompt, finish, whole, first or len(prompt.prompt_ids), flag)

    def _finished(
        self,
        flight: Flight,
        prompt: Prompt,
        finish: Finish,
        whole: array[int],
        prompt_tokens: int,
        flag: str,
    ) -> None:
        """A whole answer: final, or to be asked for once more."""
        assert finish != "abort"
        work, job = flight.work, flight.job
        output_ids = whole.tolist()
        parts = self._speech.split(output_ids, prompt.opened)
        state = judge(finish, output_ids, parts.content)
        if not policy.keep(job, state, self._settings):
            row = dead_row(
                id=prompt.id,
                dataset=work.name,
                state=state,
                final=False,
                reason="no content; asked for again",
                endpoint=flight.member.name,
                attempt=job.attempt,
                at=self._clock.wall(),
                prompt_tokens=len(prompt.prompt_ids),
                output_ids=output_ids,
                reasoning=parts.reasoning,
                content=parts.content,
            )
            self._writer.put(work.dead, encode(row))
            self._start_over(flight)
            work.queue.put(job)
            return
        row = response_row(
            id=prompt.id,
            dataset=work.name,
            state=state,
            finish_reason=finish,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(output_ids),
            reasoning_tokens=parts.reasoning_tokens,
            endpoint=flight.member.name,
            attempt=job.attempt,
            pieces=max(1, job.pieces),
            at=round(self._clock.wall(), 3),
            flag=flag or parts.flag,
            prompt_ids=prompt.prompt_ids,
            output_ids=output_ids,
            reasoning=parts.reasoning,
            content=parts.content,
            conversation=prompt.conversation,
        )
        # Counted now, so that the caps see it; told when it is in the file.
        work.figures.add(state, len(output_ids), parts.reasoning_tokens)
        self._look_for_reasoning(work)
        seconds = round(self._clock.monotonic() - flight.started, 3)
        reasoning_tokens = parts.reasoning_tokens
        self._writer.put(
            work.responses,
            encode(row),
            lambda: self._report.emit(
                "result",
                ds=work.name,
                id=prompt.id,
                state=state,
                pt=prompt_tokens,
                ct=len(output_ids),
                rt=reasoning_tokens,
                s=seconds,
            ),
        )

    def _aborted(self, flight: Flight, prompt: Prompt, answer: Answer) -> None:
        """HTTP 200, ended before its time: by us, by another, or by the server."""
        work, job = flight.work, flight.job
        grown = False
        if answer.output_ids and answer.plain_abort and flight.ending != "drop":
            job.so_far = (job.so_far or array("I")) + answer.output_ids
            job.pieces += 1
            grown = True
            row = partial_row(prompt.id, job.so_far, job.pieces, self._made)
            self._writer.put(work.partial, jsonl.encode(row))
        if flight.ending in ("hold", "drop") or (grown and flight.ending is None):
            work.queue.put(job)
            return
        why = "no progress" if flight.ending == "stall" else f"aborted: {answer.message}"
        self._retry(
            flight, prompt, policy.after_failure(job, why, self._settings.retries, self._rng)
        )

    def _unanswered(self, flight: Flight, prompt: Prompt) -> None:
        """We ended it, the server did not say so, and the connection was closed."""
        if flight.ending != "stall":
            flight.work.queue.put(flight.job)
            return
        trouble = Trouble("lost", "no progress, and the end of the request was not confirmed")
        self._troubled(flight, prompt, trouble)

    def _troubled(self, flight: Flight, prompt: Prompt, trouble: Trouble) -> None:
        if not (trouble.kind == "dropped" and not flight.job.raced):
            self._pool.trouble(flight.member, trouble)
        decision = policy.after_trouble(flight.job, trouble, self._settings, self._rng)
        self._retry(flight, prompt, decision)

    def _retry(self, flight: Flight, prompt: Prompt, decision: policy.Again | policy.Dead) -> None:
        if isinstance(decision, policy.Dead):
            self._give_up(flight, prompt, decision)
            return
        after = decision.after_s
        flight.work.queue.put(flight.job, self._clock.monotonic() + after if after else None)

    def _give_up(self, flight: Flight, prompt: Prompt, decision: policy.Dead) -> None:
        work, job = flight.work, flight.job
        size = len(prompt.prompt_ids)
        reason = decision.reason
        if decision.state == "over_context":
            reason = f"prompt of {size:,} tokens: {reason}"
        row = dead_row(
            id=prompt.id,
            dataset=work.name,
            state=decision.state,
            final=True,
            reason=reason,
            endpoint=flight.member.name,
            attempt=job.attempt,
            at=round(self._clock.wall(), 3),
            prompt_tokens=size,
            output_ids=job.so_far.tolist() if job.so_far else (),
        )
        work.figures.add(decision.state, 0, 0)
        seconds = round(self._clock.monotonic() - flight.started, 3)
        self._writer.put(
            work.dead,
            encode(row),
            lambda: self._report.emit(
                "result",
                ds=work.name,
                id=prompt.id,
                state=decision.state,
                pt=size,
                ct=0,
                rt=0,
                s=seconds,
            ),
        )

    def _start_over(self, flight: Flight) -> None:
        """The next answer begins anew, also after a crash."""
        if flight.job.so_far is not None:
            row = partial_row(flight.job.id, None, 0, self._made)
            self._writer.put(flight.work.partial, jsonl.encode(row))
        flight.job.start_over()

    def _look_for_reasoning(self, work: DatasetWork) -> None:
        """A reasoning model that never reasons is a wrong setting; said before it costs hours."""
        found = work.figures
        if self._speech.reasons and found.rows == REASONING_LOOK and not found.reasoned:
            self._report.note(
                f"{work.name}: none of the first {found.rows} responses holds reasoning, although "
                "the model has markers for it. Look at a sample; check target.reasoning, the chat "
                "template and its enable_thinking",
                "warning",
            )

    def _tell_small_pool(self, name: str, prompt_tokens: int, length: int) -> None:
        if name not in self._pools_told:
            self._pools_told.add(name)
            self._report.note(
                f"{name}: an answer was cut at {length:,} tokens after a prompt of "
                f"{prompt_tokens:,}, because the server's KV cache holds no more. Such answers are "
                "stored as truncated with the flag pool; give the server more KV memory",
                "warning",
            )
