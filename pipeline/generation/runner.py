"""The loop of phase 2: follows the operator's wishes, keeps the servers busy, and stops cleanly."""

from __future__ import annotations

import asyncio
import gc
import random
import resource

from eagle_tui import troubles
from eagle_tui.config.model import DatasetSection
from eagle_tui.rundir import desired as wishes
from eagle_tui.rundir import manifest

from ..worker import Failed, Refused, Stopped, Worker
from . import retry
from .aio import gather_quietly, wait
from .attempts import Attempts, Place
from .begun import begun
from .enders import Enders
from .flight import Ending
from .flow import Flow, decide
from .ledger import Ledger
from .plan import choose, exhausted, total_capped
from .pool import Pool
from .probe import Probe
from .report import Report
from .speech import Speech
from .work import DatasetWork, open_work
from .writer import RETRY_S, Writer

TICK_S = 0.2
"""How often wishes, servers and the stop signal are looked at."""
GC_YOUNG = 20_000
"""New objects after which the collector looks for cycles among them."""
STOP_DEADLINE_S = 3.0
"""A request whose abort is not answered by then, when the worker was asked to stop, loses its
connection."""


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
        self._caps = wishes.total_caps(worker.config, self._watch.desired)
        self._report = Report(worker.log, worker.clock)
        self._works: list[DatasetWork] = []
        self._retried: dict[str, set[int]] = {}
        self._retry_blocked = ""
        self._retry_at = 0.0
        self._wake = asyncio.Event()
        self._flow = Flow("waiting", "starting", False)
        rng = random.Random()
        settings = worker.config.generate
        self._writer = Writer(settings.fsync_interval_s, self._wake.set)
        self._ledger = Ledger(self._writer, self._report, worker.clock, self._made)
        self._pool = Pool(
            worker.clock, rng, self._wake.set, self._report.note, adaptive=settings.adaptive
        )
        self._enders = Enders(worker.clock, settings.request_stall_s, self._report.note)
        self._probe = Probe(settings.probe, needed=speech.reasons, now=worker.clock.monotonic())
        self._attempts = Attempts(
            settings=settings,
            context=worker.config.target.context_length,
            speech=speech,
            ledger=self._ledger,
            pool=self._pool,
            probe=self._probe,
            report=self._report,
            clock=worker.clock,
            rng=rng,
            next_place=self._next_place,
            changed=self._wake.set,
        )

    async def run(self) -> None:
        """Generate until nothing is left, or until asked to stop."""
        self._open()
        _raise_file_limit()
        _spare_the_collector()
        self._pool.update(self._watch.desired.endpoints)
        writing = asyncio.create_task(self._writer.run())
        try:
            await self._loop(writing)
            self._tell(at_once=True)
            self._write_manifest()
        finally:
            await self._enders.close()
            await gather_quietly(*self._attempts.tasks(), writing)
            await self._pool.close()
            self._writer.close()
            self._report.flush()

    def _open(self) -> None:
        config, desired = self._worker.config, self._watch.desired
        for section in wishes.ordered(config, desired):
            if section.kind == "native":
                continue
            self._retried[section.name] = retry.done(self._worker.run.dead(section.name))
            try:
                self._carry_out(section.name)
            except OSError as error:
                raise Failed(f"an order to retry could not be carried out: {error}") from error
            self._works.append(self._open_work(section))
            self._tell_work(self._works[-1])
            self._worker.check_stop()
        if any(work.figures.reasoned for work in self._works):
            self._probe.skip()

    def _open_work(self, section: DatasetSection) -> DatasetWork:
        config, desired = self._worker.config, self._watch.desired
        limits = wishes.limits(config, desired, section)
        order = config.generate.prompt_order
        return open_work(self._worker.run, section, limits, self._made, order)

    def _tell_work(self, work: DatasetWork) -> None:
        for note in work.notes:
            self._report.note(note, "warning")
        self._report.emit(
            "dataset", name=work.name, prompts=len(work.prompts), **work.figures.event()
        )

    def _orders(self, dataset: str) -> list[wishes.Retry]:
        """Orders to retry that were not carried out yet."""
        done = self._retried[dataset]
        return [
            order
            for order in retry.concerning(self._watch.desired.retries, dataset)
            if order.seq not in done
        ]

    def _carry_out(self, dataset: str) -> None:
        """Carry out the orders to retry of one dataset, whose files nobody has open."""
        run = self._worker.run
        for order in self._orders(dataset):
            count = retry.carry_out(
                order,
                run.responses(dataset),
                run.dead(dataset),
                run.partial(dataset),
                self._clock.wall(),
            )
            self._retried[dataset].add(order.seq)
            states = ", ".join(order.states)
            self._report.note(f"{dataset}: {count:,} prompts ({states}) are generated again")

    async def _retry(self) -> None:
        """Carry out what is ordered, now that nothing is in flight, and look at the files anew."""
        if self._clock.monotonic() < self._retry_at or not await self._writer.flush(RETRY_S):
            return
        loop = asyncio.get_running_loop()
        for place, work in enumerate(self._works):
            if not self._orders(work.name):
                continue
            self._writer.release(work.responses, work.dead, work.partial)
            try:
                await loop.run_in_executor(None, self._carry_out, work.name)
            except OSError as error:
                self._retry_at = self._clock.monotonic() + RETRY_S
                trouble = troubles.of(error)
                remedy = f"{trouble.remedy}; " if trouble.remedy else ""
                self._retry_blocked = (
                    f"{work.name}: an order to retry could not be carried out: {trouble.what}. "
                    f"{remedy}it goes on by itself"
                )
                return
            work.prompts.close()
            self._works[place] = await loop.run_in_executor(None, self._open_work, work.section)
            self._tell_work(self._works[place])
        self._retry_blocked = ""

    def _ordered(self) -> bool:
        """Is there an order to retry that was not carried out yet?"""
        return any(self._orders(work.name) for work in self._works)

    async def _loop(self, writing: asyncio.Task[None]) -> None:
        looked = float("-inf")
        stop_by: float | None = None
        while True:
            now = self._clock.monotonic()
            if now - looked >= TICK_S:
                looked = now
                self._follow_wishes()
                self._pool.tick()
                self._enders.end_stalled(self._attempts.flights, now)
                for work in self._works:
                    self._ledger.tidy(work, self._attempts.flights)
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
            elif self._ordered():
                if not self._attempts.flights:
                    await self._retry()
            elif self._finished(now) and await self._writer.flush(TICK_S):
                # While the last results wait for room on the disk, that is told, and SIGTERM holds.
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
        self._caps = wishes.total_caps(config, desired)
        for work in self._works:
            work.limits = wishes.limits(config, desired, work.section)
        self._pool.update(desired.endpoints)
        self._writer.save_soon()

    def _decide(self, *, stopping: bool) -> None:
        desired, flights = self._watch.desired, self._attempts.flights
        self._flow = decide(
            pause=desired.pause,
            finish="generate" in desired.finish,
            stopping=stopping,
            retry=self._ordered(),
            in_flight=len(flights),
            unsaved=self._writer.unsaved,
            disk=self._writer.blocked or self._retry_blocked,
            servers=self._pool.reason(),
        )
        if self._flow.mode == "draining" and not flights:
            self._writer.save_soon()
        if stopping:
            self._enders.end_all(flights, "hold", STOP_DEADLINE_S)
        elif self._flow.mode != "finishing" and desired.pause in ("hold", "abort"):
            self._enders.end_all(flights, "hold" if desired.pause == "hold" else "drop")
        elif self._flow.mode == "draining" and desired.pause == "no":
            self._enders.end_all(flights, "hold")
        else:
            self._end_leaving()

    def _end_leaving(self) -> None:
        """Take back, or throw away, what is in flight on endpoints that are about to stop."""
        desired = self._watch.desired
        endings: tuple[tuple[tuple[str, ...], Ending], ...] = (
            (desired.held, "hold"),
            (desired.dropped, "drop"),
        )
        for names, ending in endings:
            if names:
                flights = self._attempts.flights
                leaving = [f for f in flights if f.member.retired and f.member.name in names]
                self._enders.end_all(leaving, ending)

    def _next_place(self) -> Place | None:
        """Where the next request may go by budget, caps and endpoints; None: nowhere now."""
        if not self._flow.sending or self._probe.refusal:
            return None
        now = self._clock.monotonic()
        if self._probe.holds(len(self._attempts.flights), now):
            return None
        place = choose([w.standing(now) for w in self._works], self._caps)
        if place is None or (member := self._pool.pick()) is None:
            return None
        return self._works[place], member

    def _raise_failure(self) -> None:
        error = self._attempts.broken
        if isinstance(error, ValueError | OSError):
            raise Failed(str(error)) from error
        if error is not None:
            raise error
        if self._probe.warning:
            self._report.note(self._probe.warning, "warning")
            self._probe.warning = ""
        if self._probe.refusal:
            self._enders.end_all(self._attempts.flights, "hold")
            if not self._attempts.flights and not self._writer.unsaved:
                raise Refused(self._probe.refusal)

    def _finished(self, now: float) -> bool:
        if self._attempts.flights:
            return False
        if "generate" in self._watch.desired.finish:
            return True
        standings = [w.standing(now) for w in self._works]
        if total_capped(standings, self._caps):
            return True
        return all(
            exhausted(s, w.queue.left()) for s, w in zip(standings, self._works, strict=True)
        )

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
            seq=self._applied(),
            oldest_s=now - oldest,
            endpoints=self._pool.notes(),
            at_once=at_once,
        )
        self._report.load(self._pool.counts())
        self._report.begun(lambda: begun(self._works, self._attempts.flights), at_once=at_once)
        busy = next((w.name for w in self._works if w.in_flight), "")
        self._report.progress(
            sum(w.figures.final for w in self._works),
            sum(len(w.prompts) for w in self._works),
            busy,
            at_once=at_once,
        )

    def _applied(self) -> int:
        """Number of the desired state that is followed: that before an order not carried out."""
        waiting = [o.seq for work in self._works for o in self._orders(work.name)]
        return min([self._watch.desired.seq, *(seq - 1 for seq in waiting)])

    def _write_manifest(self) -> None:
        now = self._clock.monotonic()
        capped = total_capped([w.standing(now) for w in self._works], self._caps)
        left = {w.name: n for w in self._works if not capped and (n := w.left_open(now))}
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


def _spare_the_collector() -> None:
    """What is there now stays: a full collection would walk through all modules, 130 ms without a
    request. What comes and goes with a request is freed by counting; few cycles are left over."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_YOUNG)


def _raise_file_limit() -> None:
    """One connection a request: take as many open files as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
