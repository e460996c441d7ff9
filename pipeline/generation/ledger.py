"""What becomes of answers, in files and events: responses, dead letters, the journal."""

from __future__ import annotations

from array import array

from eagle_tui.clock import Clock

from . import policy
from .answers import Finish
from .flight import Flight
from .judge import RowState
from .partials import Partial, partial_row, snapshot
from .prompts import Prompt
from .report import Report
from .responses import dead_row, encode, response_row
from .speech import Parts
from .work import DatasetWork
from .writer import Writer

JOURNAL_GROWTH = 64 << 20
"""Bytes by which a journal may grow before it is rewritten with what still counts."""


class Ledger:
    """Writes rows and tells of those that are final. Figures count at once, so that the caps see
    them; the event comes when the row is in its file."""

    def __init__(self, writer: Writer, report: Report, clock: Clock, made: str) -> None:
        self._writer = writer
        self._report = report
        self._clock = clock
        self._made = made

    def respond(
        self,
        flight: Flight,
        prompt: Prompt,
        *,
        state: RowState,
        finish: Finish,
        prompt_tokens: int,
        output_ids: list[int],
        parts: Parts,
        flag: str,
    ) -> None:
        """Store the prompt's response."""
        work, job = flight.work, flight.job
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
        work.figures.add(state, len(output_ids), parts.reasoning_tokens)
        self._final(
            flight, encode(row), state, prompt_tokens, len(output_ids), parts.reasoning_tokens, True
        )

    def reject(
        self,
        flight: Flight,
        prompt: Prompt,
        *,
        state: RowState,
        final: bool,
        output_ids: list[int],
        parts: Parts,
    ) -> None:
        """Keep a whole answer among the dead letters. `final`: the prompt is given up with it."""
        why = "dropped by [generate.policy]" if final else "asked for again"
        row = dead_row(
            id=prompt.id,
            dataset=flight.work.name,
            state=state,
            final=final,
            reason=f"{state}: {why}",
            endpoint=flight.member.name,
            attempt=flight.job.attempt,
            at=round(self._clock.wall(), 3),
            prompt_tokens=len(prompt.prompt_ids),
            output_ids=output_ids,
            reasoning=parts.reasoning,
            content=parts.content,
        )
        if not final:
            self._writer.put(flight.work.dead, encode(row))
            return
        flight.work.figures.add(state, stored=False)
        self._final(flight, encode(row), state, len(prompt.prompt_ids), 0, 0, False)

    def give_up(self, flight: Flight, prompt: Prompt, decision: policy.Dead) -> None:
        """A prompt without an answer becomes a dead letter."""
        size = len(prompt.prompt_ids)
        reason = decision.reason
        if decision.state == "over_context":
            reason = f"prompt of {size:,} tokens: {reason}"
        so_far = flight.job.so_far
        row = dead_row(
            id=prompt.id,
            dataset=flight.work.name,
            state=decision.state,
            final=True,
            reason=reason,
            endpoint=flight.member.name,
            attempt=flight.job.attempt,
            at=round(self._clock.wall(), 3),
            prompt_tokens=size,
            output_ids=so_far.tolist() if so_far else (),
        )
        flight.work.figures.add(decision.state, stored=False)
        self._final(flight, encode(row), decision.state, size, 0, 0, False)

    def _final(
        self,
        flight: Flight,
        line: bytes,
        state: str,
        prompt_tokens: int,
        completion_tokens: int,
        reasoning_tokens: int,
        stored: bool,
    ) -> None:
        work, name, id = flight.work, flight.work.name, flight.job.id
        ended = flight.ended or self._clock.monotonic()
        seconds = round(ended - flight.started, 3)
        self._writer.put(
            work.responses if stored else work.dead,
            line,
            lambda: self._report.emit(
                "result",
                ds=name,
                id=id,
                state=state,
                pt=prompt_tokens,
                ct=completion_tokens,
                rt=reasoning_tokens,
                s=seconds,
                stored=stored,
            ),
        )

    def save(self, flight: Flight, whole: array[int], pieces: int) -> None:
        """Bring the journal up to the answer so far."""
        job = flight.job
        if len(whole) != job.saved:
            start = min(job.saved, len(whole))
            row = partial_row(job.id, whole[start:], pieces, self._made, start)
            self._writer.put(flight.work.partial, row)
            job.saved = len(whole)

    def start_over(self, flight: Flight) -> None:
        """The next answer begins anew, also after a crash."""
        flight.job.start_over()
        self.save(flight, array("I"), 0)

    def tidy(self, work: DatasetWork, flights: set[Flight]) -> None:
        """Rewrite a journal that has grown much with what still counts."""
        if self._writer.grown(work.partial) < JOURNAL_GROWTH:
            return
        counting = [
            Partial(job.id, job.so_far, job.pieces) for job in work.queue.begun() if job.so_far
        ]
        for flight in flights:
            whole = flight.whole(flight.streamed if flight.streamed else array("I"))
            if flight.work is work and whole and flight.job.saved:
                saved = whole[: flight.job.saved]
                counting.append(Partial(flight.job.id, saved, flight.job.pieces + 1))
        self._writer.replace(work.partial, snapshot(counting, self._made))
