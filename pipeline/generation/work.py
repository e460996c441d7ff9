"""One dataset at work: its prompts, what is final, what waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle_tui.config.model import DatasetSection
from eagle_tui.rundir import atomic
from eagle_tui.rundir.desired import Limits
from eagle_tui.rundir.paths import RunDir

from ..worker import Refused
from .figures import Figures
from .jobs import Job, JobQueue
from .partials import load
from .plan import Standing, capped
from .prompts import Order, PromptFile
from .responses import Scan, given_up, scan


@dataclass(eq=False)
class DatasetWork:
    """A dataset that is being generated."""

    section: DatasetSection
    prompts: PromptFile
    figures: Figures
    queue: JobQueue
    limits: Limits
    responses: Path
    dead: Path
    partial: Path
    notes: list[str] = field(default_factory=list)
    """What was found on opening and the operator should know."""
    in_flight: int = 0
    """Requests that a server has."""
    unsettled: int = 0
    """Answers that are here and not counted yet."""

    @property
    def name(self) -> str:
        return self.section.name

    def standing(self, now: float) -> Standing:
        """Where the dataset stands at monotonic time `now`."""
        return Standing(
            concurrency=self.limits.concurrency,
            in_flight=self.in_flight,
            unsettled=self.unsettled,
            ready=self.queue.ready(now),
            rows=self.figures.rows,
            tokens=self.figures.tokens,
            max_new_tokens=self.limits.max_new_tokens,
            cap_tokens=self.limits.cap_tokens,
            cap_samples=self.limits.cap_samples,
            skip=self.limits.skip,
        )

    def take(self) -> Job:
        """The next job; only when the standing says that one is ready."""
        found = self.queue.take()
        return found if isinstance(found, Job) else Job(found, self.prompts.ids[found])

    def left_open(self, now: float) -> int:
        """Prompts without a final response that no cap and no skip leaves out on purpose."""
        return 0 if self.limits.skip or capped(self.standing(now)) else self.queue.left()

    def summary(self, now: float) -> dict[str, Any]:
        """What the manifest says about the dataset."""
        return {
            "prompts": len(self.prompts),
            **self.figures.summary(),
            "left": self.queue.left(),
            "capped": capped(self.standing(now)),
            "skipped": self.limits.skip,
        }


def open_work(
    run: RunDir, section: DatasetSection, limits: Limits, made: str, order: Order = "file"
) -> DatasetWork:
    """Repair and scan the dataset's files and find what is left to do.

    `made`: fingerprint of all that a response depends on; partial answers made from other inputs
    are not continued. Refused: there are no prompts.
    """
    name = section.name
    try:
        prompts = PromptFile(run.prompts(name), order)
    except FileNotFoundError:
        raise Refused(
            f"{run.prompts(name)}: there are no prompts of dataset {name!r}; run prepare first"
        ) from None
    except ValueError as error:
        raise Refused(str(error)) from error
    for path in (run.responses(name), run.dead(name), run.partial(name)):
        atomic.remove_left(path)
    places = {id: place for place, id in enumerate(prompts.ids)}
    figures, final, foreign = Figures(), bytearray(len(prompts)), 0
    seen = Scan()
    for head in scan(run.responses(name), seen):
        place = places.get(head.id)
        if place is None:
            foreign += 1
            continue
        final[place] = 1
        figures.add(head.state, head.completion_tokens, head.reasoning_tokens)
    for id, state in given_up(run.dead(name)).items():
        place = places.get(id)
        if place is not None and not final[place]:
            final[place] = 1
            figures.add(state, stored=False)
    waiting = _Waiting(places, final)
    begun = [
        Job(places[p.id], p.id, so_far=p.output_ids, pieces=p.pieces, saved=len(p.output_ids))
        for p in load(run.partial(name), made, waiting)
    ]
    for job in begun:
        final[job.index] = 1  # not fresh
    fresh = prompts.in_order(place for place, taken in enumerate(final) if not taken)
    return DatasetWork(
        section=section,
        prompts=prompts,
        figures=figures,
        queue=JobQueue(fresh, begun),
        limits=limits,
        responses=run.responses(name),
        dead=run.dead(name),
        partial=run.partial(name),
        notes=_notes(name, seen, foreign),
    )


class _Waiting:
    """The ids without a final response, without a set of them."""

    def __init__(self, places: dict[str, int], final: bytearray) -> None:
        self._places = places
        self._final = final

    def __contains__(self, id: object) -> bool:
        place = self._places.get(id) if isinstance(id, str) else None
        return place is not None and not self._final[place]


def _notes(name: str, seen: Scan, foreign: int) -> list[str]:
    notes: list[str] = []
    if seen.repair is not None:
        notes.append(
            f"{name}: {seen.repair.cut:,} bytes of a torn last row were cut off; that prompt is "
            "generated again"
        )
    if seen.broken:
        notes.append(f"{name}: {seen.broken:,} broken rows were moved to {name}.jsonl.torn")
    if seen.doubled:
        notes.append(f"{name}: {seen.doubled:,} doubled rows were moved to {name}.jsonl.torn")
    if foreign:
        notes.append(
            f"{name}: {foreign:,} stored responses belong to no prompt of now; they are kept and "
            "not counted"
        )
    return notes
