"""The life of one request: built, sent, answered, and what becomes of its prompt.

A whole answer frees its place at once, so that the next request goes out, and is taken apart when
nothing else waits; until then it is among the flights and counts for the caps.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Literal

from eagle_tui.clock import Clock
from eagle_tui.config.model import GenerateSection

from . import policy, requests
from .answers import Answer, Finish, Outcome, Trouble
from .flight import Flight
from .judge import judge
from .ledger import Ledger
from .pool import Member, Pool
from .probe import Probe
from .prompts import Prompt
from .remarks import Remarks
from .report import Report
from .speech import Speech
from .work import DatasetWork

PAYS_FROM = 2.0
"""From so many fsync intervals at stake in the mean request on, the journal pays. A new start takes
longer than that by itself."""
UNSETTLED = 256
"""Answers that may wait to be taken apart; more would only take memory."""
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
        ledger: Ledger,
        pool: Pool,
        probe: Probe,
        report: Report,
        clock: Clock,
        rng: Random,
        next_place: Callable[[], Place | None],
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._context = context
        self._sampling = requests.sampling_params(settings)
        self._speech = speech
        self._ledger = ledger
        self._pool = pool
        self._probe = probe
        self._clock = clock
        self._rng = rng
        self._next_place = next_place
        self._changed = changed
        self.broken: BaseException | None = None
        """What broke the program in a request; None: nothing."""
        self._remarks = Remarks(report, reasons=bool(speech.reasons))
        self.flights: set[Flight] = set()
        """Requests that a server has, and those whose answer waits to be taken apart."""
        self._unsettled: deque[tuple[Flight, Answer]] = deque()
        self._settling: asyncio.Task[None] | None = None

    def fill(self) -> None:
        """Send as much as there are places for."""
        while (flight := self._board()) is not None:
            flight.task = asyncio.get_running_loop().create_task(self._fly(flight))
            flight.task.add_done_callback(self._note_end)

    def tasks(self) -> set[asyncio.Task[None]]:
        """What runs, to be given up at the end."""
        tasks = {flight.task for flight in self.flights} | {self._settling}
        return {task for task in tasks if task is not None}

    def _board(self) -> Flight | None:
        """Take the next job, if there is a place for one."""
        place = self._next_place()
        if place is None:
            return None
        work, member = place
        flight = Flight(work, work.take(), member, self._clock.monotonic())
        work.in_flight += 1
        member.in_flight += 1
        member.pace.started(flight.started)
        self.flights.add(flight)
        return flight

    def _land(self, flight: Flight) -> None:
        """The server has it no more, and its place is free."""
        flight.work.in_flight -= 1
        flight.member.in_flight -= 1
        flight.ended = self._clock.monotonic()
        flight.member.pace.ended(flight.started, flight.ended, answered=flight.answered)
        if not flight.answered:
            self.flights.discard(flight)
        flight.landed.set()

    async def _fly(self, first: Flight) -> None:
        """One request after the other, as long as there is a place: the next one goes out in the
        same step in which an answer came in, and the answer is taken apart afterwards, so that no
        server waits for our own work."""
        flight: Flight | None = first
        while flight is not None:
            task = flight.task
            answer = await self._run(flight)
            flight.answered = answer is not None
            self._land(flight)
            if answer is not None:
                self._settle_soon(flight, answer)
            flight = self._board()
            if flight is not None:
                flight.task = task
        self._changed()

    def _settle_soon(self, flight: Flight, answer: Answer) -> None:
        flight.work.unsettled += 1
        self._unsettled.append((flight, answer))
        if len(self._unsettled) > UNSETTLED:
            self._settle()
        if self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(self._settle_all())
            self._settling.add_done_callback(self._note_end)

    async def _settle_all(self) -> None:
        """One answer at a time, and between two of them whatever came in meanwhile."""
        while self._unsettled:
            await asyncio.sleep(0)
            self._settle()
        self._settling = None
        self._changed()

    def _settle(self) -> None:
        flight, answer = self._unsettled.popleft()
        assert answer.finish == "stop" or answer.finish == "length"
        prompt = flight.work.prompts.read(flight.job.index)
        self._answered(flight, prompt, answer, answer.finish)
        flight.work.unsettled -= 1
        self.flights.discard(flight)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = error
            self._changed()

    async def _run(self, flight: Flight) -> Answer | None:
        """Send it and wait. A whole answer is given back, to be settled; everything else is dealt
        with at once."""
        # Between the answer and what becomes of it nothing is awaited, so that a flight that is
        # cancelled has no answer yet.
        work, job, member = flight.work, flight.job, flight.member
        if flight.ended_by_us():  # before it began
            work.queue.put(job)
            return None
        prompt = work.prompts.read(job.index)
        if max(job.so_far or (), default=0) >= self._speech.vocabulary:
            self._ledger.start_over(flight)  # a server with another model was stopped half-way
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
            journal=self._journal(member),
        )
        job.attempt += 1
        if isinstance(request, policy.Dead):
            self._ledger.give_up(flight, prompt, request)
            return None
        if isinstance(request, requests.Ended):
            whole = job.so_far or array("I")
            self._finished(flight, prompt, request.finish, whole, len(prompt.prompt_ids), "")
            return None
        flight.rid, flight.asked, data = request.rid, request.asked, request.body
        opened = prompt.opened
        # The prompt is read again when the answer is there: its ids as Python numbers take 36 KB a
        # thousand, and hundreds of requests are in flight for minutes.
        del prompt, request
        assert member.client is not None  # one without is never picked
        try:
            outcome: Outcome = await member.client.generate(
                data, lambda new: self._progressed(flight, opened, new)
            )
        except asyncio.CancelledError:
            if not flight.ended_by_us():
                raise
            assert flight.task is not None
            flight.task.uncancel()
            self._keep_streamed(flight)
            self._unanswered(flight, work.prompts.read(job.index))
            return None
        if (
            isinstance(outcome, Answer)
            and max(outcome.output_ids, default=0) >= self._speech.vocabulary
        ):
            outcome = self._foreign(flight, outcome)
        if isinstance(outcome, Answer) and outcome.finish in ("stop", "length"):
            self._pool.success(member)
            member.count.answers += 1
            return outcome
        prompt = work.prompts.read(job.index)
        if isinstance(outcome, Trouble):
            member.count.failures += 1
            grown = self._keep_streamed(flight)
            self._troubled(flight, prompt, outcome, grown)
        else:
            self._aborted(flight, prompt, outcome)
        return None

    def _foreign(self, flight: Flight, answer: Answer) -> Trouble:
        """Tokens that the target does not have, as of a server with another model: nothing of the
        answer is kept, since such an id brings extraction and training down."""
        flight.streamed = None
        self._ledger.start_over(flight)
        return Trouble(
            "garbled",
            f"the answer holds token id {max(answer.output_ids)}, and those of target.model end at "
            f"{self._speech.vocabulary - 1}; does the server serve another model?",
            200,
        )

    def _journal(self, member: Member) -> int:
        """The interval of the crash journal in tokens; 0 where the journal does not pay."""
        at_stake_s = member.pace.at_stake_s(self._clock.monotonic())
        if at_stake_s is not None and at_stake_s <= PAYS_FROM * self._settings.fsync_interval_s:
            return 0
        return self._settings.journal_tokens

    def _progressed(self, flight: Flight, opened: bool, new: array[int]) -> None:
        """A stream has brought more tokens: save them when they are worth a row."""
        job = flight.job
        flight.member.count.tokens += len(new) - len(flight.streamed or ())
        flight.streamed = new
        known = len(job.so_far or ()) + len(new)
        # The first event comes after one token, the others at the interval.
        if known - job.saved >= self._settings.journal_tokens:
            whole = flight.whole(new)
            self._ledger.save(flight, whole, job.pieces + 1)
            self._probe.see(opened, self._speech, whole)

    def _keep_streamed(self, flight: Flight) -> bool:
        """What a stream brought before it broke off is the answer so far; was there anything?"""
        new, flight.streamed = flight.streamed, None
        if flight.ending == "drop":
            self._ledger.save(flight, flight.job.so_far or array("I"), flight.job.pieces)
            return False
        if not new:
            return False
        flight.grow(new)
        assert flight.job.so_far is not None
        self._ledger.save(flight, flight.job.so_far, flight.job.pieces)
        return True

    def _count(self, flight: Flight, new: int) -> None:
        flight.member.count.tokens += new - len(flight.streamed or ())

    def _answered(
        self, flight: Flight, prompt: Prompt, answer: Answer, finish: Literal["stop", "length"]
    ) -> None:
        job = flight.job
        flag = ""
        if finish == "length" and answer.length is not None and answer.length < flight.asked:
            flag = "pool"
            self._remarks.small_pool(flight.member.name, len(prompt.prompt_ids), answer.length)
        self._count(flight, len(answer.output_ids))
        first = answer.prompt_tokens if job.so_far is None else None
        whole = flight.whole(answer.output_ids)
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
        """A whole answer: stored, dropped, or to be asked for once more."""
        assert finish != "abort"
        output_ids = whole.tolist()
        parts = self._speech.split(output_ids, prompt.opened)
        self._probe.judge(prompt.opened, parts)
        state = judge(finish, output_ids, parts.content)
        choice = policy.after_answer(flight.job, state, self._settings.policy)
        if choice == "keep":
            self._ledger.respond(
                flight,
                prompt,
                state=state,
                finish=finish,
                prompt_tokens=prompt_tokens,
                output_ids=output_ids,
                parts=parts,
                flag=flag,
            )
            self._remarks.no_reasoning(flight.work)
            return
        self._ledger.reject(
            flight,
            prompt,
            state=state,
            final=choice == "drop",
            output_ids=output_ids,
            parts=parts,
        )
        if choice == "again":
            self._ledger.start_over(flight)
            flight.work.queue.put(flight.job)

    def _aborted(self, flight: Flight, prompt: Prompt, answer: Answer) -> None:
        """HTTP 200, ended before its time: by us, by another, or by the server."""
        work, job = flight.work, flight.job
        self._count(flight, len(answer.output_ids))
        flight.streamed = answer.output_ids if answer.plain_abort else flight.streamed
        grown = self._keep_streamed(flight)
        rules = self._settings.policy
        if flight.ending in ("hold", "drop") or (grown and flight.ending is None):
            work.queue.put(job)
        elif flight.ending == "stall":
            self._retry(flight, prompt, policy.after_stall(job, "no progress", rules, self._rng))
        else:
            flight.member.count.failures += 1
            why = f"ended on the server: {answer.message}"
            self._retry(flight, prompt, policy.after_abort(job, why, rules, self._rng))

    def _unanswered(self, flight: Flight, prompt: Prompt) -> None:
        """We ended it, the server did not say so, and the connection was closed."""
        if flight.ending != "stall":
            flight.work.queue.put(flight.job)
            return
        trouble = Trouble("lost", "no progress, and the end of the request was not confirmed")
        self._troubled(flight, prompt, trouble, False)

    def _troubled(self, flight: Flight, prompt: Prompt, trouble: Trouble, grown: bool) -> None:
        job = flight.job
        queue = flight.work.queue
        to_blame = False
        if not (trouble.kind == "dropped" and not job.raced):
            to_blame = self._pool.trouble(flight.member, trouble, job.id, others=queue.fresh() > 0)
        if grown:
            job.losses = 0  # a prompt that brings servers down gets no further
        if trouble.kind == "over_context" and job.so_far:
            # What the context ends is not sent again, so here it is the server's KV cache.
            self._remarks.small_pool(flight.member.name, len(prompt.prompt_ids), len(job.so_far))
            self._finished(flight, prompt, "length", job.so_far, len(prompt.prompt_ids), "pool")
            return
        if to_blame:
            queue.put_last(job)
            return
        meanwhile = flight.member.answered_at > flight.started
        rules, rng = self._settings.policy, self._rng
        decision = policy.after_trouble(job, trouble, rules, rng, meanwhile=meanwhile)
        self._retry(flight, prompt, decision)

    def _retry(self, flight: Flight, prompt: Prompt, decision: policy.Again | policy.Dead) -> None:
        if isinstance(decision, policy.Dead):
            self._ledger.give_up(flight, prompt, decision)
            return
        after = decision.after_s
        flight.work.queue.put(flight.job, self._clock.monotonic() + after if after else None)
