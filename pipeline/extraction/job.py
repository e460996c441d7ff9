"""The loop of one rank: rows in, states out, told as it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from eagle_tui.clock import Clock
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.jsonl import Appender
from eagle_tui.rundir.paths import RunDir

from .. import shards
from ..shards import Shard, Split, TokenRow
from ..worker import Failed, Stopped
from .check import compare, least_agreement
from .plan import RowRef, make_batches
from .states import Backend, States
from .task import Task, quarantine_path
from .team import Team
from .writer import AsyncWriter, Bad, HiddenWriter, Numbers, Quarantine, no_room

RANK_BYTES = 4 << 30
"""Memory for the shards that a rank is collecting."""
_MOST_WRITERS = 8
_OPEN_SHARDS = 4
"""Token shards kept in memory; rows of a window of like length come from few of them."""


@dataclass(frozen=True)
class Post:
    """What the loop of a rank needs, whichever rank it is."""

    run: RunDir
    config: RunConfig
    clock: Clock
    stop: threading.Event
    team: Team
    task: Task

    @property
    def directory(self) -> Path:
        """Where the shards go."""
        return self.run.phase("extract") / self.task.directory


class Reader(Protocol):
    """Fetches the tokens of rows."""

    def read(self, ref: RowRef) -> TokenRow:
        """The row's tokens and mask."""
        ...


class RowReader:
    """Fetches the tokens of rows; a few shards in memory at a time."""

    def __init__(self, run: RunDir) -> None:
        self._paths = {split: shards.find_shards(run, split) for split in ("train", "val")}
        self._open: dict[tuple[Split, int], Shard] = {}

    def read(self, ref: RowRef) -> TokenRow:
        """The row's tokens and mask, as many as are to be extracted. ShardError when its shard
        cannot be read."""
        key = (ref.split, ref.shard)
        if key not in self._open:
            while len(self._open) >= _OPEN_SHARDS:
                del self._open[next(iter(self._open))]
            self._open[key] = shards.open_shard(self._paths[ref.split][ref.shard])
        row = self._open[key][ref.place]
        return TokenRow(row.ids[: ref.tokens], row.mask[: ref.tokens])


def fault_of(ref: RowRef, row: TokenRow, vocabulary: int) -> str:
    """Why a row cannot be given to the target; empty when it can."""
    if len(row.ids) != ref.tokens:
        return f"{len(row.ids)} tokens where the index says {ref.tokens}"
    if not len(row.ids):
        return "no tokens"
    low, high = int(np.min(row.ids)), int(np.max(row.ids))
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        return f"token id {wrong} is outside the target's vocabulary of {vocabulary}"
    return ""


def faulty_rows(run: RunDir, refs: Sequence[RowRef], vocabulary: int) -> list[Bad]:
    """Those of the rows that the target cannot be given."""
    reader = RowReader(run)
    faults = ((ref, fault_of(ref, reader.read(ref), vocabulary)) for ref in refs)
    return [Bad(ref.id, ref.dataset, fault) for ref, fault in faults if fault]


class Extraction:
    """One rank at work."""

    def __init__(
        self, post: Post, backend: Backend, vocabulary: int, meanwhile: Callable[[], None]
    ) -> None:
        """`meanwhile` is called between batches, from the thread of `work`."""
        self._post = post
        self.backend = backend
        self._vocabulary = vocabulary
        self._meanwhile = meanwhile
        self.reader: Reader = RowReader(post.run)
        self.writers = 1
        """Threads that write, a shard each."""
        self.checked: Callable[[str], None] = lambda _: None
        self.model: Any = None
        """With a model, the first batch's states are compared with its own logits."""

    def again(self, post: Post) -> Extraction:
        """The same rank with other work: the target stays loaded, and was looked at."""
        other = Extraction(post, self.backend, self._vocabulary, self._meanwhile)
        other.writers = self.writers
        return other

    def work(self, left: Sequence[RowRef]) -> None:
        """Extract the rows of this rank; on disk when it returns. All of them, unless the operator
        wants to go on with what is there.

        Stopped when asked to, Failed when the states are wrong or the disk is full; what was
        finished before is on disk in either case.
        """
        mine = left[self._post.team.rank :: self._post.team.world]
        self.store(make_batches(mine, self._post.config.extract.batch_tokens))

    def store(self, batches: Iterable[list[RowRef]]) -> None:
        """Extract these batches; ends as `work` does."""
        post, team = self._post, self._post.team
        settings = post.config.extract
        with Appender(quarantine_path(post.directory, team.rank)) as appender:
            quarantine = Quarantine(appender)
            numbers = Numbers(post.task.first_number + team.rank, team.world)
            writers = [
                HiddenWriter(
                    post.directory,
                    post.task.metadata,
                    shard_tokens=settings.shard_tokens,
                    most_bytes=RANK_BYTES // self.writers,
                    numbers=numbers,
                    quarantine=quarantine,
                    clock=post.clock,
                    written=lambda size: void(team.count("bytes", size)),
                )
                for _ in range(self.writers)
            ]
            behind = AsyncWriter(writers, post.clock, self._stored)
            try:
                self._batches(batches, behind)
            finally:
                try:
                    behind.close()
                except OSError as error:
                    raise Failed(
                        f"{post.directory}: cannot be written ({error.strerror}). What was "
                        "finished is kept; make room, and the phase goes on from there."
                    ) from error

    def _stored(self, rows: int, tokens: int, bad: list[Bad]) -> None:
        team = self._post.team
        team.count("rows", rows)
        team.count("tokens", tokens)
        team.count("bad", len(bad))

    def rehearse(self, refs: Sequence[RowRef]) -> None:
        """Run the target on the first rows and look at what comes; nothing is stored. Failed when
        the states are wrong or the device is too small."""
        batches = make_batches(refs, self._post.config.extract.batch_tokens)
        sound = (self._sound(batch)[1] for batch in batches)
        rows = next((rows for rows in sound if rows), [])
        if not rows:
            return
        states = self._try(rows)
        if states is None:
            raise Failed(
                f"{len(rows)} rows of up to {len(rows[0].ids)} tokens do not fit into the device's "
                "memory beside the target. Lower extract.batch_tokens."
            )
        self._check(rows, states)

    def _batches(self, batches: Iterable[list[RowRef]], behind: AsyncWriter) -> None:
        waited = 0.0
        for batch in batches:
            if self._post.stop.is_set():
                raise Stopped
            if self._post.team.over:
                return
            refs, rows, bad = self._sound(batch)
            if bad:
                behind.reject(bad)
            self._run(refs, rows, behind)
            self._post.team.count("wait_ms", round(1000 * (behind.waited_s - waited)))
            waited = behind.waited_s
            self._meanwhile()

    def _sound(self, batch: Sequence[RowRef]) -> tuple[list[RowRef], list[TokenRow], list[Bad]]:
        refs: list[RowRef] = []
        rows: list[TokenRow] = []
        bad: list[Bad] = []
        for ref in batch:
            row = self.reader.read(ref)
            if fault := fault_of(ref, row, self._vocabulary):
                bad.append(Bad(ref.id, ref.dataset, fault))
            else:
                refs.append(ref)
                rows.append(row)
        return refs, rows, bad

    def _run(self, refs: list[RowRef], rows: list[TokenRow], behind: AsyncWriter) -> None:
        """Run a batch, in halves where the device is too small for it. Failed when the states are
        wrong, before any of them is stored: else the next attempt would go on behind them."""
        todo = [(refs, rows)] if refs else []
        while todo:
            refs, rows = todo.pop()
            states = self._try(rows)
            if states is None:
                torch.cuda.empty_cache()
                if len(refs) == 1:
                    behind.reject([no_room(refs[0].id, refs[0].dataset, refs[0].tokens)])
                    continue
                half = len(refs) // 2
                todo += [(refs[half:], rows[half:]), (refs[:half], rows[:half])]
                continue
            if self.model is not None:
                self._check(rows, states)
            behind.put(refs, rows, states)

    def _try(self, rows: list[TokenRow]) -> States | None:
        """The states, or None when the device is too small. The error is gone when this returns,
        and with it what its frames hold of the device's memory."""
        try:
            return self.backend.states(rows)
        except torch.OutOfMemoryError:
            return None

    def _check(self, rows: list[TokenRow], states: States) -> None:
        states.ready()
        found = compare(self.model, rows, states)
        if not found.positions:
            return  # rows that say nothing: the next batch is looked at
        self.model = None
        least = least_agreement(self._post.task.metadata["dtype"])
        if found.share < least:
            raise Failed(
                f"The captured states are not what they should be: {found.sentence()}; at least "
                f"{least:.0%} is needed. This target's final state may be scaled or "
                "normed in a way that we do not know: set extract.backend to sglang."
            )
        self.checked(found.sentence())


def writers_for(device: torch.device, cores: int) -> int:
    """How many threads are to write, on a machine with so many cores for this rank. One suffices
    for a target on a CPU, and leaves it the cores; a small target on a GPU makes gigabytes a
    second, of which a thread copies, sums and writes one at most."""
    if device.type == "cpu":
        return 1
    return max(1, min(_MOST_WRITERS, cores // 2))


def void(_: object) -> None:
    """For a callback whose answer nobody needs."""
