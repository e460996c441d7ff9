"""Phase 3: join native and generated rows, mask, shuffle, split, write token shards.

`python -m eagle_tui.pipeline.merge RUN`

Two passes, so that memory does not grow with the data: the first reads every row and keeps some 50
bytes of each (where it lies, how long it is, its places in the shuffle and the split), the second
fetches the rows in shuffled order. The order depends on the seed and the ids alone, not on the
order in which responses were finished.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from eagle_tui.config.model import DatasetSection
from eagle_tui.rundir import jsonl, manifest

from . import shards, targets
from .generation.prompts import prompt_ids
from .shards import ShardWriter, TokenRow
from .template import Renderer
from .tokenizing import without_torch
from .training_rows import Dropped, RowMaker, read_row
from .worker import Refused, Worker, main

_PROGRESS_S = 0.5
_CHECK_ROWS = 256
_COVERAGE = (8_000, 16_000, 32_000, 64_000)
"""Sizes of a draft vocabulary for which the coverage is told."""
_ID_BYTES = 12


@dataclass
class Index:
    """Where every row that is kept lies; columns of equal length."""

    file: array[int] = field(default_factory=lambda: array("i"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    order: array[int] = field(default_factory=lambda: array("Q"))
    """Place in the shuffle."""
    group: array[int] = field(default_factory=lambda: array("Q"))
    """Place in the split: equal for rows with equal prompts, which so stay on one side."""

    def add(self, file: int, offset: int, size: int, order: int, group: int) -> None:
        self.file.append(file)
        self.offset.append(offset)
        self.size.append(size)
        self.order.append(order)
        self.group.append(group)

    def __len__(self) -> int:
        return len(self.file)


@dataclass
class Tally:
    """Figures for the manifest."""

    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    splits: dict[str, Counter[str]] = field(
        default_factory=lambda: {"train": Counter(), "val": Counter()}
    )
    longest: int = 0

    def count(self, split: str, row: TokenRow) -> None:
        self.splits[split].update(
            rows=1, tokens=len(row.ids), supervised=int(np.count_nonzero(row.mask))
        )
        self.longest = max(self.longest, len(row.ids))

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "dropped": dict(self.dropped.most_common()),
            "longest": self.longest,
            **{
                split: {key: counts[key] for key in ("rows", "tokens", "supervised")}
                for split, counts in self.splits.items()
            },
        }


def _hash(seed: int, what: str, data: bytes) -> int:
    digest = hashlib.sha256(f"{seed}\0{what}\0".encode() + data).digest()
    return int.from_bytes(digest[:8], "big")


def _key(row_id: str) -> bytes:
    return hashlib.sha256(row_id.encode()).digest()[:_ID_BYTES]


class Keys:
    """A set of keys that does not grow any more; eight bytes each."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        heads = array("Q", (int.from_bytes(key[:8], "big") for key in keys))
        self._heads = np.sort(np.frombuffer(heads, np.uint64))

    def holds(self, key: bytes) -> bool:
        head = np.uint64(int.from_bytes(key[:8], "big"))
        at = int(np.searchsorted(self._heads, head))
        return at < len(self._heads) and bool(self._heads[at] == head)


def val_rows(
    index: Index, fraction: float, hold_out: Sequence[int | Literal["all"] | None] = ()
) -> npt.NDArray[np.bool_]:
    """Which rows are for validation: of every dataset `fraction`, at least one of two or more, by
    the rank of their prompts' hashes. `hold_out` says for each file how many prompts instead.
    Rows with equal prompts, also of two datasets, are on the same side."""
    files = np.frombuffer(index.file, np.int32)
    groups = np.frombuffer(index.group, np.uint64)
    chosen = np.zeros(len(index), np.bool_)
    for file in np.unique(files):
        places = np.flatnonzero(files == file)
        held = hold_out[file] if file < len(hold_out) else None
        if held == "all":
            chosen[places] = True
            continue
        names = np.unique(groups[places])
        wanted = held or (max(1, round(fraction * len(names))) if fraction > 0 else 0)
        wanted = min(wanted, len(names) - 1)
        if not wanted:
            continue
        chosen[places] = groups[places] <= names[wanted - 1]
    # Else a prompt that is held out of one dataset would be learned in another.
    return chosen | np.isin(groups, groups[chosen])


class Merge:
    """One merge of a run."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._settings = worker.config.merge
        tokenizer = targets.load_tokenizer(worker.config, worker.run)
        eos = targets.eos_ids(worker.config, worker.run, tokenizer)
        renderer = Renderer(tokenizer, eos, worker.config.target.chat_template_kwargs)
        self._maker = RowMaker(eos, renderer.end_of_turn(), self._settings)
        self._datasets = worker.config.dataset
        self._paths = [self._path_of(d) for d in self._datasets]
        self._tallies = [Tally() for _ in self._datasets]
        self._frequency = np.zeros(len(tokenizer), np.int64)
        self._told_at = -1.0
        self._example = ""

    def _path_of(self, dataset: DatasetSection) -> Path:
        run = self._worker.run
        return (
            run.prompts(dataset.name) if dataset.kind == "native" else run.responses(dataset.name)
        )

    def run(self, inputs: dict[str, str]) -> None:
        """Merge, and write the manifest. Refused when there is nothing to train on."""
        worker = self._worker
        early = self._what_is_missing()
        index = self._index()
        if not len(index):
            raise Refused(self._why_nothing())
        directory = shards.new_directory(worker.run, worker.attempt)
        try:
            outputs = self._write(index, directory)
            worker.finish(
                counts=self._counts(),
                outputs=outputs,
                versions={"numpy": np.__version__},
                inputs=inputs,
                early=early,
            )
        finally:
            # The old shards when the manifest names the new ones, else the unfinished new ones.
            shards.remove_unnamed(worker.run)
        self._tell()

    def _what_is_missing(self) -> str:
        run, config = self._worker.run, self._worker.config
        gone = [d.name for d, p in zip(self._datasets, self._paths, strict=True) if not p.exists()]
        parts = [f"no rows of {', '.join(gone)}"] if gone else []
        if any(d.kind == "prompts" for d in self._datasets) and (
            "generate" in config.run.phases and manifest.read(run, "generate") is None
        ):
            parts.append("generate has not finished")
        if parts:
            self._worker.log.note(f"merging with what is there: {'; '.join(parts)}", "warning")
        return "; ".join(parts)

    def _index(self) -> Index:
        index = Index()
        seen: set[bytes] = set()
        seed = self._settings.seed
        for number, (dataset, path) in enumerate(zip(self._datasets, self._paths, strict=True)):
            tally = self._tallies[number]
            prompts = self._prompts(dataset)
            for offset, line in jsonl.lines(path):
                if not line.strip():
                    continue
                tally.read += 1
                if tally.read % _CHECK_ROWS == 0:
                    self._worker.check_stop()
                    self._progress("reading", dataset.name, len(index), None)
                row_id = "?"
                try:
                    row = read_row(line)
                    row_id = str(row["id"])
                    key = _key(row_id)
                    if prompts is not None and not prompts.holds(key):
                        raise Dropped("prompt no longer there")
                    made = self._maker.make(row)
                    if key in seen:
                        raise Dropped("seen before")
                except Dropped as why:
                    tally.dropped[str(why)] += 1
                    self._example = self._example or (
                        f"row {row_id} of {dataset.name} ({path}, byte {offset}): {why}"
                    )
                    continue
                seen.add(key)
                first = int(np.argmax(made.mask))
                index.add(
                    number,
                    offset,
                    len(line),
                    _hash(seed, "order", row_id.encode()),
                    _hash(seed, "split", made.ids[:first].tobytes()),
                )
        return index

    def _prompts(self, dataset: DatasetSection) -> Keys | None:
        """The prompts that a dataset has now: responses stay when settings change, and are used
        while their prompt is there. None for native rows, and where nobody has prepared prompts."""
        path = self._worker.run.prompts(dataset.name)
        if dataset.kind == "native" or not path.exists():
            return None
        try:
            return Keys(_key(row_id) for row_id in prompt_ids(path))
        except ValueError as error:
            raise Refused(str(error)) from error

    def _write(self, index: Index, directory: Path) -> list[Path]:
        held_out = [dataset.hold_out for dataset in self._datasets]
        chosen = val_rows(index, self._settings.val_fraction, held_out)
        files: dict[int, IO[bytes]] = {}
        writers = {
            name: ShardWriter(directory, name, self._settings.shard_tokens)
            for name in ("train", "val")
        }
        places = np.lexsort((np.frombuffer(index.order, np.uint64),))
        try:
            for done, place in enumerate(map(int, places)):
                number = index.file[place]
                if number not in files:
                    files[number] = self._paths[number].open("rb")
                files[number].seek(index.offset[place])
                row = read_row(files[number].read(index.size[place]))
                made = self._maker.make(row)
                split = "val" if chosen[place] else "train"
                writers[split].add(str(row["id"]), self._datasets[number].name, made)
                self._tallies[number].count(split, made)
                if split == "train":  # the draft vocabulary must not know what is held out
                    self._count_tokens(made)
                if done % _CHECK_ROWS == 0:
                    self._worker.check_stop()
                    self._progress("writing", directory.name, done, len(index))
        finally:
            for file in files.values():
                file.close()
        for writer in writers.values():
            writer.flush()
        self._told_at = -1.0
        self._progress("writing", directory.name, len(index), len(index))
        return [path for writer in writers.values() for path in writer.paths]

    def _count_tokens(self, row: TokenRow) -> None:
        found = np.bincount(row.ids[row.mask == 1])
        if len(found) > len(self._frequency):
            self._frequency = np.pad(self._frequency, (0, len(found) - len(self._frequency)))
        self._frequency[: len(found)] += found

    def _progress(self, what: str, detail: str, done: int, total: int | None) -> None:
        now = self._worker.clock.monotonic()
        if now - self._told_at >= _PROGRESS_S:
            self._told_at = now
            self._worker.log.emit(
                "progress", done=done, total=total, unit="rows", detail=f"{what} {detail}"
            )

    def _counts(self) -> dict[str, object]:
        per_dataset = {
            d.name: t.to_json() for d, t in zip(self._datasets, self._tallies, strict=True)
        }
        total: dict[str, Any] = {
            split: {
                key: sum(entry[split][key] for entry in per_dataset.values())
                for key in ("rows", "tokens", "supervised")
            }
            for split in ("train", "val")
        }
        dropped: Counter[str] = Counter()
        for tally in self._tallies:
            dropped.update(tally.dropped)
        return {
            **total,
            "dropped": dict(dropped.most_common()),
            "longest": max(tally.longest for tally in self._tallies),
            "vocabulary": coverage(self._frequency),
            "datasets": per_dataset,
        }

    def _why_nothing(self) -> str:
        read = sum(tally.read for tally in self._tallies)
        if not read:
            names = ", ".join(sorted({str(path.parent.name) for path in self._paths}))
            return f"There is nothing to merge: no rows in {names}. Run the earlier phases first."
        dropped: Counter[str] = Counter()
        for tally in self._tallies:
            dropped.update(tally.dropped)
        reasons = ", ".join(f"{n:,} {why}" for why, n in dropped.most_common())
        return (
            f"No token of the {read:,} rows is to be predicted, so nothing could be trained: "
            f"{reasons}. For example {self._example}. Look at merge.include "
            "and merge.max_tokens in run.toml, and at the responses."
        )

    def _tell(self) -> None:
        for dataset, tally in zip(self._datasets, self._tallies, strict=True):
            lost = sum(tally.dropped.values())
            if lost:
                reasons = ", ".join(f"{n:,} {why}" for why, n in tally.dropped.most_common())
                self._worker.log.note(
                    f"{dataset.name}: {lost:,} of {tally.read:,} rows left out: {reasons}",
                    "warning" if lost == tally.read else "info",
                )
        if not any(tally.splits["val"]["rows"] for tally in self._tallies):
            self._worker.log.note(
                "no row is held out, so training cannot tell its best checkpoint and the benchmark "
                "has no prompts: set merge.val_fraction, or hold_out of a dataset of two prompts "
                "or more",
                "warning",
            )
        shares = coverage(self._frequency)
        told = ", ".join(f"{size}: {share:.2%}" for size, share in shares["share_of"].items())
        self._worker.log.note(
            f"{shares['distinct']:,} different tokens are predicted; coverage by a draft "
            f"vocabulary of {told}"
        )


def coverage(frequency: npt.NDArray[np.int64]) -> dict[str, Any]:
    """How much of the supervised tokens the most frequent ones cover, by size of the set; sizes
    from the vocabulary on are left out, but for the first."""
    total = int(frequency.sum())
    ranked = np.sort(frequency)[::-1].cumsum()
    shares: dict[str, float] = {}
    for size in _COVERAGE:
        known = min(size, len(frequency))
        shares[str(known)] = round(float(ranked[known - 1]) / total, 6) if total else 0.0
    return {
        "size": len(frequency),
        "distinct": int(np.count_nonzero(frequency)),
        "share_of": shares,
    }


def body(worker: Worker) -> None:
    """Merge what the earlier phases have made."""
    inputs = manifest.inputs_of(worker.config, worker.run, "merge")
    Merge(worker).run(inputs)


if __name__ == "__main__":
    sys.exit(main("merge", without_torch(body)))
