"""Extract a window of rows, learn from it, delete it, and go on with the next.

The ranks of the training extract by themselves, so nothing is to be agreed between processes that
could die apart. A window lies in RUN/hidden/window/: `window.json` {key, epoch, first, end} tells
which packs of which epoch it holds; shards and quarantine are as those of the extract phase. It is
deleted only after a checkpoint beyond it is on disk, and whoever goes on from a checkpoint makes of
it what is missing: a row is found by its id, so none is extracted twice, and a pack is taken by the
training's own count, so none is learned from twice, however often all of this is killed.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from eagle_tui.rundir import atomic, manifest

from ..extraction.disk import GB, Room, bytes_needed, free_bytes, gigabytes
from ..extraction.job import Extraction, Post
from ..extraction.lead import open_rank
from ..extraction.plan import RowRef, finished_shards, ids_done, make_batches, shard_number
from ..extraction.task import WINDOW, Task, close_quarantine, tidy
from ..extraction.team import LocalStore, Team
from ..hidden import HiddenError
from ..shards import TokenRow
from ..worker import Failed, Refused, Stopped, Worker
from .data import Table
from .feed import EndEarly
from .plan import Place, Plan
from .ranks import Ranks
from .report import Reporter
from .sources import WindowRows
from .window import WindowTooSmall, usable, window_end

_STATE: Final = "window.json"
_QUARANTINE: Final = "quarantine-*.jsonl"


class Rolling:
    """A `Feed` of windows on the disk."""

    def __init__(
        self,
        worker: Worker,
        ranks: Ranks,
        table: Table,
        source: WindowRows,
        metadata: dict[str, str],
        identity: dict[str, str],
        report: Reporter,
        finish: Callable[[], bool],
    ) -> None:
        """`metadata` of the shards; `identity` of all on which rows and their order depend."""
        self._worker, self._ranks = worker, ranks
        self._table, self._source = table, source
        self._metadata = metadata
        self._key = manifest.fingerprint([identity, metadata])
        self._report, self._finish = report, finish
        self._settings = worker.config.extract
        self._reader = _Cut(source, worker.config.train.max_tokens)
        self._refs = [self._reader.cut(source.refs[place]) for place in table.places]
        width, dtype = source.hidden_size, self._settings.dtype
        self._sizes = np.array([bytes_needed([ref], width, dtype) for ref in self._refs], np.int64)
        self._root = worker.run.phase("extract") / WINDOW
        self._rank: Extraction | None = None

    # -- what the loop asks for --------------------------------------------------------------------

    def begin(self, plan: Plan, place: Place, steps: int) -> int:
        """Have the rows of the next steps on disk. Refused when the window or the disk is too small
        for that, Failed when the states are wrong or the disk is full."""
        end = self._choose(plan, place, steps)
        packs = range(place.packs, end)
        wanted = [self._refs[row] for pack in packs for row in plan.rows(place.epoch, pack)]
        paths = finished_shards(self._root)
        stored = ids_done(paths, self._root.glob(_QUARANTINE))
        self._ranks.barrier()  # nobody writes before all have looked
        left = [ref for ref in wanted if ref.id not in stored]
        if left:
            number = max((shard_number(path) for path in paths), default=-1) + 1
            self._extract(left, number, place, len(wanted))
            self._ranks.barrier()
        self._open(wanted)
        return end

    def end(self) -> None:
        """Delete the window."""
        self._source.open([])
        if self._ranks.first:
            shutil.rmtree(self._root, ignore_errors=True)

    # -- which rows --------------------------------------------------------------------------------

    def _choose(self, plan: Plan, place: Place, steps: int) -> int:
        """The end of the window: of the one that is there, if it serves, or of a new one."""
        limit = round(self._settings.rolling_window_gb * GB)
        world = self._ranks.world
        try:
            fresh = window_end(
                plan, place, world=world, steps=steps, sizes=self._sizes, limit=limit
            )
        except WindowTooSmall as error:
            raise Refused(
                f"extract.rolling_window_gb = {self._settings.rolling_window_gb:g} does not hold "
                f"the rows of one step of {world} ranks, which take {gigabytes(error.needed)}. "
                "Raise it, or lower train.batch_tokens."
            ) from error
        if self._ranks.first:
            self._prepare(plan, place, fresh)
        self._ranks.barrier()
        return int(self._state()["end"])

    def _state(self) -> dict[str, Any]:
        body = atomic.read_json(self._root / _STATE)
        return body if isinstance(body, dict) else {}

    def _prepare(self, plan: Plan, place: Place, fresh: int) -> None:
        """Make the directory what it says that it is; the first rank only."""
        found = self._state()
        same = found.get("key") == self._key and found.get("epoch") == place.epoch
        first, end = int(found.get("first", 0)), int(found.get("end", 0))
        last = plan.packs(place.epoch)
        if same and usable(first, end, place, world=self._ranks.world, last=last):
            tidy(self._root)
            close_quarantine(self._root)
            return
        shutil.rmtree(self._root, ignore_errors=True)
        rows = [row for pack in range(place.packs, fresh) for row in plan.rows(place.epoch, pack)]
        need = int(self._sizes[rows].sum())
        room = Room(free_bytes(self._root), self._settings.keep_free_bytes)
        if need > room.usable:
            raise Refused(
                f"{self._root}: the next window takes {gigabytes(need)}; {room.sentence()}. Make "
                "room, or lower extract.rolling_window_gb."
            )
        self._root.mkdir(parents=True)
        body = {"key": self._key, "epoch": place.epoch, "first": place.packs, "end": fresh}
        atomic.write_json(self._root / _STATE, body)

    def _open(self, wanted: Sequence[RowRef]) -> None:
        """Have every row from the shards, or know that it was put away."""
        try:
            stored = self._source.open(finished_shards(self._root))
        except (HiddenError, ValueError) as error:
            raise Failed(f"{error} Remove {self._root} and run the phase again.") from error
        away = ids_done([], self._root.glob(_QUARANTINE)) - stored
        lost = [ref.id for ref in wanted if ref.id not in stored and ref.id not in away]
        if lost:
            raise Failed(
                f"{self._root}: {len(lost)} rows are missing, for example {lost[0]}. Remove it and "
                "run the phase again."
            )
        if not away:
            return
        text = f"{len(away)} rows of the window were put away, see {self._root}/{_QUARANTINE}"
        if len(away) > self._settings.max_bad_fraction * len(self._table):
            raise Failed(
                f"{text}: more than extract.max_bad_fraction = "
                f"{self._settings.max_bad_fraction} of all rows."
            )
        self._report.note(text, warning=True)

    # -- the work ----------------------------------------------------------------------------------

    def _extract(self, left: list[RowRef], number: int, place: Place, wanted: int) -> None:
        """This rank's share of the rows, on disk when it returns."""
        self._report.note(
            f"extracts {len(left):,} rows of {sum(ref.tokens for ref in left):,} tokens for the "
            f"steps from {place.step + 1:,} on"
            + (f"; {wanted - len(left):,} are there" if wanted > len(left) else "")
        )
        rank = self._open_rank(number)
        batches = make_batches(left, self._settings.batch_tokens)
        try:
            rank.store(self._share(batches))
        finally:
            rank.backend.away()

    def _open_rank(self, number: int) -> Extraction:
        ranks, worker = self._ranks, self._worker
        team = Team(ranks.rank, ranks.world, int(os.environ.get("LOCAL_RANK", "0")), LocalStore())
        task = Task(WINDOW, number, self._metadata)
        # Its own event, never set: ranks stop together, between two batches.
        post = Post(worker.run, worker.config, worker.clock, threading.Event(), team, task)
        if self._rank is None:
            self._rank = open_rank(post, lambda: None, alone=False)
            self._rank.checked = self._report.note
        else:
            self._rank = self._rank.again(post)
            self._rank.backend.back()
        self._rank.reader = self._reader
        return self._rank

    def _share(self, batches: list[list[RowRef]]) -> Iterator[list[RowRef]]:
        """This rank's batches. Before each the ranks agree on going on."""
        world = self._ranks.world
        for turn in range(math.ceil(len(batches) / world)):
            asked = [self._worker.stop.is_set(), self._finish()]
            stop, finish = self._ranks.any(asked)
            if stop:
                raise Stopped
            if finish:
                raise EndEarly
            self._report.extracting(turn * world, len(batches), self._worker.clock.monotonic())
            place = turn * world + self._ranks.rank
            if place < len(batches):
                yield batches[place]


class _Cut:
    """Reads rows cut to the length that is trained on."""

    def __init__(self, source: WindowRows, limit: int) -> None:
        self._source, self._limit = source, limit
        self._places = {ref.id: place for place, ref in enumerate(source.refs)}

    def cut(self, ref: RowRef) -> RowRef:
        """What the row is when it is cut."""
        if ref.tokens <= self._limit:
            return ref
        mask = self._source.tokens(self._places[ref.id])[1][: self._limit]
        return replace(ref, tokens=self._limit, supervised=int(mask.sum()))

    def read(self, ref: RowRef) -> TokenRow:
        """The tokens and mask of a row."""
        ids, mask = self._source.tokens(self._places[ref.id])
        return TokenRow(ids[: self._limit].numpy(), mask[: self._limit].numpy())
