"""The loop of phase 2: follows the operator's wishes, keeps the servers busy, and stops cleanly."""

from __future__ import annotations

import asyncio
import random
import resource

from eagle_tui.rundir import desired as wishes
from eagle_tui.rundir import manifest

from ..worker import Failed, Stopped, Worker
from .aio import gather_quietly, wait
from .attempts import Attempts, Ending, Flight, Place
from .flow import Flow, decide
from .plan import choose, exhausted
from .pool import STILL_S, Pool
from .report import Report
from .speech import Speech
from .work import DatasetWork, open_work
from .writer import Writer

TICK_S = 0.2
"""How often wishes, servers and the stop signal are looked at."""
ABORT_AGAIN_S = 0.5
"""An abort that comes before the server has registered the request does nothing, so it is sent
again until the request has ended."""
ABORT_DEADLINE_S = 5.0
"""A request whose abort is not answered by then loses its connection."""
STOP_DEADLINE_S = 3.0
"""The same when the worker was asked to stop."""
ABORTS_AT_ONCE = 32
SPARE_FILES = 256
"""Open files beside one connection a request."""


class Runner:
    """One run of the phase. `await run()` returns when the phase is done, with its manifest
    written.

    Stopped: asked to stop, everything is on disk. Failed, Refused: with the reason.
    """

    def __init__(self, worker: Worker, speech: Speech) -> None:
        self._worker = worker
        self._speech = speech
        self._clock = worker.clock
        self._inputs = manifest.inputs_of(worker.config, worker.run, "generate")
        self._made = manifest.fingerprint(self._inputs)
        self._watch = wishes.Watch(worker.run.desired, worker.config)
        self._broken_wish = ""
        self._report = Report(worker.log, worker.clock)
        self._works: list[DatasetWork] = []
        self._wake = asyncio.Event()
        self._flow = Flow("waiting", "starting", False)
        self._rng = random.Random()
        self._enders: set[asyncio.Task[None]] = set()
        self._aborting = asyncio.Semaphore(ABORTS_AT_ONCE)
        self._writer = Writer(worker.config.generate.fsync_interval_s, self._wake.set)
        self._pool = Pool(worker.clock, self._rng, self._wake.set, self._report.note)
        self._attempts = Attempts(
            settings=worker.config.generate,
            context=worker.config.target.context_length,
            speech=speech,
            writer=self._writer,
            pool=self._pool,
            report=self._report,
            clock=worker.clock,
            rng=self._rng,
            made=self._made,
            next_place=self._next_place,
            changed=self._wake.set,
        )

    async def run(self) -> None:
        """Generate until nothing is left, or until asked to stop."""
        self._open()
        _raise_file_limit()
        self._pool.update(self._watch.desired.endpoints)
        writing = asyncio.create_task(self._writer.run())
        try:
            await self._loop(writing)
            await self._writer.flush()
            self._tell(at_once=True)
            self._write_manifest()
        finally:
            flights = [f.task for f in self._attempts.flights if f.task is not None]
            await gather_quietly(*self._enders, *flights, writing)
            await self._pool.close()
            self._writer.close()
            self._report.flush()

    def _open(self) -> None:
        config, desired = self._worker.config, self._watch.desired
        for section in wishes.ordered(config, desired):
            if section.kind == "native":
                continue
            limits = wishes.limits(config, desired, section)
            work = open_work(self._worker.run, section, limits, self._made)
            self._works.append(work)
            for note in work.notes:
                self._report.note(note, "warning")
            self._report.emit(
                "dataset", name=work.name, prompts=len(work.prompts), **work.figures.event()
            )
            self._worker.check_stop()

    async def _loop(self, writing: asyncio.Task[None]) -> None:
        looked = float("-inf")
        stop_by: float | None = None
        while True:
            now = self._clock.monotonic()
            if now - looked >= TICK_S:
                looked = now
                self._follow_wishes()
                self._pool.tick()
                self._end_stalled(now)
                self._report.flush()
                if stop_by is None and self._worker.stop.is_set():
                    stop_by = now + STOP_DEADLINE_S + 1.0
            self._decide(stopping=stop_by is not None)
            self._attempts.fill()
            self._tell()
            if writing.done():
                writing.result()
            self._raise_failure()
            if stop_by is not None:
                if not self._attempts.flights or now > stop_by:
                    await self._save_and_stop()
            elif self._finished(now):
                return
            await wait(self._wake, TICK_S)
            self._wake.clear()

    def _follow_wishes(self) -> None:
        try:
            changed = self._watch.poll()
        except (ValueError, OSError) as error:
            if str(error) != self._broken_wish:
                self._broken_wish = str(error)
                self._report.note(
                    f"desired state is not readable and not followed: {error}", "error"
                )
            return
        self._broken_wish = ""
        if not changed:
            return
        config, desired = self._worker.config, self._watch.desired
        order = {d.name: place for place, d in enumerate(wishes.ordered(config, desired))}
        self._works.sort(key=lambda work: order[work.name])
        for work in self._works:
            work.limits = wishes.limits(config, desired, work.section)
        self._pool.update(desired.endpoints)
        self._writer.save_soon()

    def _decide(self, *, stopping: bool) -> None:
        desired = self._watch.desired
        self._flow = decide(
            pause=desired.pause,
            finish="generate" in desired.finish,
            stopping=stopping,
            in_flight=len(self._attempts.flights),
            unsaved=self._writer.unsaved,
            disk=self._writer.blocked,
            servers=self._pool.reason(),
        )
        if self._flow.mode == "draining" and not self._attempts.flights:
            self._writer.save_soon()
        if stopping:
            self._end_all("hold", STOP_DEADLINE_S)
        elif desired.pause in ("hold", "abort") and self._flow.mode != "finishing":
            self._end_all("hold" if desired.pause == "hold" else "drop", ABORT_DEADLINE_S)

    def _next_place(self) -> Place | None:
        """Where the next request may go by budget, caps and endpoints; None: nowhere now."""
        if not self._flow.sending:
            return None
        now = self._clock.monotonic()
        place = choose([w.standing(now) for w in self._works])
        if place is None or (member := self._pool.pick()) is None:
            return None
        return self._works[place], member

    def _end_all(self, ending: Ending, deadline_s: float) -> None:
        for flight in self._attempts.flights:
            if flight.ending is None:
                self._end(flight, ending, deadline_s)

    def _end_stalled(self, now: float) -> None:
        limit = self._worker.config.generate.request_stall_s
        for flight in self._attempts.flights:
            pulse = flight.member.pulse
            if (
                flight.ending is None
                and now - flight.started >= limit
                and pulse.told
                and pulse.still_s(now) >= min(STILL_S, limit)
            ):
                self._report.note(
                    f"{flight.member.name}: a request of {flight.work.name} had no answer for "
                    f"{now - flight.started:,.0f} s and the server makes no tokens; it is ended "
                    "and sent again",
                    "warning",
                )
                self._end(flight, "stall", ABORT_DEADLINE_S)

    def _end(self, flight: Flight, ending: Ending, deadline_s: float) -> None:
        flight.ending = ending
        task = asyncio.get_running_loop().create_task(self._abort(flight, deadline_s))
        self._enders.add(task)
        task.add_done_callback(self._enders.discard)

    async def _abort(self, flight: Flight, deadline_s: float) -> None:
        """End a request on its server and wait until it has ended."""
        task, client = flight.task, flight.member.client
        assert task is not None and client is not None
        by = self._clock.monotonic() + deadline_s
        while not flight.landed.is_set():
            left = by - self._clock.monotonic()
            if left <= 0:
                task.cancel()
                return
            if flight.rid:
                async with self._aborting:
                    try:
                        async with asyncio.timeout(left):
                            await client.abort(flight.rid)
                    except TimeoutError:
                        continue
            await wait(flight.landed, min(ABORT_AGAIN_S, left))

    def _raise_failure(self) -> None:
        error = self._attempts.broken
        if isinstance(error, ValueError | OSError):
            raise Failed(str(error)) from error
        if error is not None:
            raise error

    def _finished(self, now: float) -> bool:
        if self._attempts.flights:
            return False
        if "generate" in self._watch.desired.finish:
            return True
        return all(exhausted(w.standing(now), w.queue.left()) for w in self._works)

    async def _save_and_stop(self) -> None:
        if not await self._writer.flush(1.0):
            self._report.note(
                "some results could not be written and are generated again at the next start: "
                f"{self._writer.blocked or 'the disk is too slow'}",
                "warning",
            )
        raise Stopped

    def _tell(self, *, at_once: bool = False) -> None:
        now = self._clock.monotonic()
        oldest = min((f.started for f in self._attempts.flights), default=now)
        self._report.flow(
            self._flow,
            in_flight={w.name: w.in_flight for w in self._works},
            seq=self._watch.desired.seq,
            oldest_s=now - oldest,
            endpoints=self._pool.notes(),
            at_once=at_once,
        )
        busy = next((w.name for w in self._works if w.in_flight), "")
        self._report.progress(
            sum(w.figures.final for w in self._works),
            sum(len(w.prompts) for w in self._works),
            busy,
            at_once=at_once,
        )

    def _write_manifest(self) -> None:
        now = self._clock.monotonic()
        left = {w.name: n for w in self._works if (n := w.left_open(now))}
        early = ""
        if left:
            parts = ", ".join(f"{name} {n:,}" for name, n in left.items())
            early = f"{sum(left.values()):,} prompts left: {parts}"
        self._worker.finish(
            counts={w.name: w.summary(now) for w in self._works},
            outputs=[w.responses for w in self._works if w.responses.exists()],
            versions=self._speech.versions,
            inputs=self._inputs,
            early=early,
        )


def _raise_file_limit() -> None:
    """One connection a request: take as many open files as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
