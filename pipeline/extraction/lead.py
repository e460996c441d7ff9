"""What the first rank does beside its share of the work: plan, refuse, report, finish."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch

from eagle_tui.rundir import jsonl, manifest
from eagle_tui.rundir.desired import Watch

from ..shards import ShardError, index_path
from ..worker import Failed, Refused, Stopped, Worker
from .disk import GB, Room, bytes_needed, free_bytes, gigabytes, why_no_window, why_too_big
from .job import Extraction, Post, faulty_rows, writers_for
from .plan import NoLayers, RowRef, choose_layers, finished_shards, read_rows, to_store
from .target import (
    Capture,
    describe,
    load_target,
    pick_device,
    provenance,
    shape_of,
    target_hash,
    text_config,
)
from .task import (
    WINDOW,
    Task,
    Work,
    fingerprint,
    gather_quarantine,
    look_up,
    remove_unnamed,
    set_up,
)
from .team import Team
from .writer import Bad

PHASE = "extract"
TELL_S = 1.0
"""Seconds between two reports."""
_RATE_S = 30.0
"""Window of the rates that are told."""
_POLL_S = 0.2
_UNREAD = 0.02
"""Share of tokens that training will not read from which that is told."""


class Lead:
    """The first rank of an extraction; by transformers, unless `_share` is another."""

    def __init__(self, worker: Worker, team: Team) -> None:
        self._worker = worker
        self._team = team
        self._settings = worker.config.extract
        self._watch = Watch(worker.run.desired, worker.config)
        self._work = Work([], [], 0, 0, 0)
        self._later: list[RowRef] = []
        """Rows for which training runs the target by itself."""
        self._faulty: list[Bad] = []
        """Those of them that it cannot be given."""
        self._began = 0.0
        self.detail = ""
        """What is done now, beside the count of rows."""
        self._told_at = -TELL_S
        self._samples: deque[tuple[float, int, int, int]] = deque()
        """(monotonic, tokens, bytes, milliseconds waited) of all ranks."""

    def run(self) -> None:
        """Do the phase. Refused, Failed and Stopped as `worker.main` expects them."""
        inputs = manifest.inputs_of(self._worker.config, self._worker.run, "extract")
        if self._settings.mode != "rolling":
            # Of a training that was rolling before.
            shutil.rmtree(self._worker.run.phase("extract") / WINDOW, ignore_errors=True)
        task = self._plan(inputs)
        post = self._post(task)
        self._team.tell("task", task.to_json())
        self._began = self._worker.clock.monotonic()
        self._report(force=True)
        try:
            self._share(post)
            self._wait_for_others()
        except (Stopped, Failed):
            gather_quarantine(self._worker.run, post.directory, self._faulty)
            raise
        self._report(force=True)
        self._finish(post, inputs)

    def _post(self, task: Task) -> Post:
        w = self._worker
        return Post(w.run, w.config, w.clock, w.stop, self._team, task)

    # -- before the work ---------------------------------------------------------------------------

    def _plan(self, inputs: dict[str, str]) -> Task:
        worker, settings = self._worker, self._settings
        shape = shape_of(worker.config, worker.run)
        try:
            layers, note = choose_layers(settings.layers, shape.layers, shape.model_type)
            wanted = read_rows(worker.run, settings.samples, settings.max_tokens)
        except (NoLayers, ShardError) as error:
            raise Refused(str(error)) from error
        if not wanted:
            raise Refused("There are no rows to extract: the token shards are empty.")
        if note:
            worker.log.note(note, "warning")
        name = target_hash(worker.config, worker.run)
        metadata = provenance(worker.config, layers, settings.dtype, name)
        # Of the settings only those matter that change the states, and these are in the metadata.
        data = {name: value for name, value in inputs.items() if not name.startswith("[")}
        if settings.max_tokens is not None:
            data["longest row"] = str(settings.max_tokens)
        key = fingerprint(metadata, data)
        here = {row.id for row in to_store(wanted, settings.mode)}
        self._later = [row for row in wanted if row.id not in here]
        task = set_up(worker.run, worker.attempt, key, metadata, here)
        self._work = look_up(worker.config, worker.run, task)
        self._check_disk(shape.hidden_size, settings.dtype)
        self._tell_plan(layers, shape.layers)
        if self._later:
            self._faulty = faulty_rows(worker.run, self._later, shape.vocabulary)
        return task

    def _check_disk(self, hidden: int, dtype: str) -> None:
        work, root, settings = self._work, self._worker.run.phase("extract"), self._settings
        room = Room(free_bytes(root), settings.keep_free_bytes)
        if settings.mode == "rolling":
            epoch = bytes_needed(self._later, hidden, dtype)
            window = min(epoch, round(settings.rolling_window_gb * GB))
            reason = why_no_window(bytes_needed(work.left, hidden, dtype), window, room)
        else:
            reason = why_too_big(
                work.left,
                hidden_size=hidden,
                dtype=dtype,
                room=room,
                stored_rows=work.stored_train,
                live=settings.backend == "transformers",
            )
        if reason:
            raise Refused(f"{root}: {reason}")

    def _tell_plan(self, layers: tuple[int, int, int], count: int) -> None:
        work, log = self._work, self._worker.log
        tokens = sum(row.tokens for row in work.left)
        ids = ", ".join(str(layer) for layer in layers)
        log.note(
            f"captures the inputs of layers {ids} of {count} and the final state after its norm, "
            f"as {self._settings.dtype}"
            + (f": {len(work.left):,} rows, {tokens:,} tokens to do" if work.wanted else "")
        )
        if self._later:
            log.note(
                f"training runs the target by itself (extract.mode = {self._settings.mode}): "
                f"{len(self._later):,} rows, {sum(row.tokens for row in self._later):,} tokens an "
                "epoch"
            )
        self._tell_unread()
        if work.stored or work.bad:
            log.note(
                f"goes on where it was: {work.stored:,} rows are stored, {work.bad:,} put away"
            )

    def _tell_unread(self) -> None:
        """Of states that cost time and disk, and that training cuts away."""
        limit = self._worker.config.train.max_tokens
        tokens = sum(row.tokens for row in self._work.left)
        unread = sum(max(0, row.tokens - limit) for row in self._work.left)
        if "train" in self._worker.config.run.phases and unread > _UNREAD * tokens:
            self._worker.log.note(
                f"{unread / tokens:.0%} of these tokens lie beyond train.max_tokens = {limit:,} "
                f"and are never learned from: extract.max_tokens = {limit} leaves them out",
                "warning",
            )

    # -- the work ----------------------------------------------------------------------------------

    def _share(self, post: Post) -> None:
        """Do this rank's share of the rows that are left; where there are none since training
        extracts by itself, try the target on a few."""
        if not self._work.left and not self._later:
            return
        rank = open_rank(post, self._report)
        rank.checked = self._worker.log.note
        self._began = self._worker.clock.monotonic()  # loading the target is not extracting
        self._worker.log.note(f"target: {describe(rank.model)}; {self._team.world} ranks")
        if self._work.left:
            rank.work(self._work.left)
        else:
            rank.rehearse(self._later)

    def _wait_for_others(self) -> None:
        for rank in range(1, self._team.world):
            while not self._team.store.check([f"done/{rank}"]):
                self._worker.check_stop()
                self._report()
                time.sleep(_POLL_S)

    def _report(self, *, force: bool = False) -> None:
        """Tell how far all ranks are; Failed when too many rows are bad."""
        now = self._worker.clock.monotonic()
        if not force and now - self._told_at < TELL_S:
            return
        self._told_at = now
        team, work = self._team, self._work
        self._watch.follow()
        if PHASE in self._watch.desired.finish and not team.over:
            team.end_early()
        rows, bad = team.count("rows"), team.count("bad")
        log = self._worker.log
        log.emit(
            "progress",
            done=work.stored + work.bad + rows + bad + len(self._later),
            total=len(work.wanted) + len(self._later),
            unit="rows",
            detail=self.detail or (f"{work.bad + bad} put away" if work.bad + bad else ""),
        )
        values = self._rates(now)
        if values and self._moved():
            log.emit("metric", values=values)
        bad, total = bad + work.bad + len(self._faulty), len(work.wanted) + len(self._later)
        if bad > self._settings.max_bad_fraction * total:
            raise Failed(
                f"{bad} of {total} rows could not be used, more than "
                f"extract.max_bad_fraction = {self._settings.max_bad_fraction} allows. The reasons "
                f"are in {self._worker.run.phase('extract')}/quarantine.jsonl."
            )

    def _rates(self, now: float) -> dict[str, float]:
        team = self._team
        sample = (now, team.count("tokens"), team.count("bytes"), team.count("wait_ms"))
        self._samples.append(sample)
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_S:
            self._samples.popleft()
        first = self._samples[0]
        seconds = sample[0] - first[0]
        if seconds <= 0:
            return {}
        return {
            "tok_s": round((sample[1] - first[1]) / seconds, 1),
            "write_mb_s": round((sample[2] - first[2]) / seconds / 1e6, 2),
            "write_wait": round((sample[3] - first[3]) / 1000 / seconds / team.world, 4),
        }

    def _moved(self) -> bool:
        """Whether tokens came since the last look: figures of a rank that hangs are no news."""
        return len(self._samples) > 1 and self._samples[-1][1] > self._samples[-2][1]

    # -- after the work ----------------------------------------------------------------------------

    def _finish(self, post: Post, inputs: dict[str, str]) -> None:
        worker, work = self._worker, self._work
        paths = finished_shards(post.directory)
        stored: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        supervised: Counter[str] = Counter()
        seen: Counter[str] = Counter()
        for path in paths:
            split = path.name.partition("-")[0]
            for row in jsonl.rows(index_path(path)):
                seen[row["id"]] += 1
                stored[split] += 1
                tokens[split] += row["tokens"]
                supervised[split] += row["supervised"]
        bad = gather_quarantine(worker.run, post.directory, self._faulty)
        faulty = {row.id for row in self._faulty}
        for ref in (ref for ref in self._later if ref.id not in faulty):
            stored[ref.split] += 1
            tokens[ref.split] += ref.tokens
            supervised[ref.split] += ref.supervised
        put_away = {str(row["id"]) for row in bad}
        lost = _each_once(seen, put_away, {row.id for row in work.wanted}, self._team.over)
        if not stored["train"]:
            raise Failed("No training row can be used; see quarantine.jsonl for the reasons.")
        seconds = worker.clock.monotonic() - self._began
        size = sum(path.stat().st_size for path in paths)
        worker.finish(
            counts={
                **{
                    split: {
                        "rows": stored[split],
                        "tokens": tokens[split],
                        "supervised": supervised[split],
                    }
                    for split in ("train", "val")
                },
                "quarantined": len(bad),
                "bytes": size,
                "mode": self._settings.mode,
                **post.task.metadata,
            },
            outputs=[p for path in paths for p in (path, index_path(path))],
            versions={"torch": torch.__version__, "transformers": version("transformers")},
            inputs=inputs,
            early=f"{lost:,} of {len(work.wanted):,} rows were left out" if lost else "",
        )
        remove_unnamed(worker.run)
        self._tell_end(seconds, size, bad)

    def _tell_end(self, seconds: float, size: int, bad: list[dict[str, Any]]) -> None:
        team, log = self._team, self._worker.log
        tokens = sum(row.tokens for row in self._work.left)
        wait = team.count("wait_ms") / 1000 / team.world
        if tokens and seconds > 0:
            log.note(
                f"{tokens:,} tokens in {seconds:,.0f} s ({tokens / seconds:,.0f} tok/s), "
                f"{gigabytes(size)} on disk; held up by the disk {wait / seconds:.1%} of the time"
            )
        if bad:
            reasons = Counter(str(row["reason"]) for row in bad).most_common(3)
            told = "; ".join(f"{count} × {reason}" for reason, count in reasons)
            log.note(f"{len(bad)} rows were put away, see quarantine.jsonl: {told}", "warning")


def _each_once(seen: Counter[str], bad: set[str], wanted: set[str], early: bool) -> int:
    """Every row stored once or put away, and nothing else; gives how many are missing, which may
    be only when it ended early. Failed otherwise: then something is wrong with the run directory,
    or with us."""
    twice = sorted(row for row, count in seen.items() if count > 1)
    lost = sorted(wanted - set(seen) - bad)
    unknown = sorted(set(seen) - wanted)
    if twice or unknown or (lost and not early):
        example = (twice or unknown or lost)[0]
        raise Failed(
            f"The stored rows are not the wanted ones: {len(twice)} twice, {len(lost)} missing, "
            f"{len(unknown)} unknown, for example {example}. Remove the shards in the run's "
            "directory hidden/ and extract again."
        )
    return len(lost)


def open_rank(post: Post, meanwhile: Callable[[], None], *, alone: bool = True) -> Extraction:
    """A rank with the target loaded; `alone`: this process does nothing else. Refused when that is
    impossible."""
    config, team = post.config, post.team
    device = pick_device(config.extract.device, team.local_rank)
    if device.type == "cuda" and alone:
        # Else whatever names no device would also take memory of the first GPU.
        torch.cuda.set_device(device)
    model = load_target(config, post.run, device)
    backend = Capture(model, post.task.layers, post.task.metadata["dtype"])
    vocabulary = int(text_config(model.config).vocab_size)
    rank = Extraction(post, backend, vocabulary, meanwhile)
    cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    rank.writers = writers_for(device, cores)
    rank.model = model
    return rank
