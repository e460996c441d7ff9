"""What the first rank decides once and all ranks carry out: where to write, and which rows."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import atomic, jsonl, manifest
from eagle_tui.rundir.paths import RunDir

from .plan import RowRef, finished_shards, ids_done, read_rows, shard_number, to_store
from .writer import Bad, lasting

_TASK = "task.json"
_QUARANTINE = "quarantine-*.jsonl"
_BEFORE = "quarantine-before.jsonl"
"""Rows that earlier attempts put away; the ranks of this one write files of their own."""


@dataclass(frozen=True)
class Task:
    """An extraction as it is shared by the ranks of an attempt."""

    directory: str
    """Name of the directory of shards."""
    first_number: int
    """Shards with lower numbers were there when the attempt began; they alone count as done."""
    metadata: dict[str, str]
    """Of every shard."""

    @property
    def layers(self) -> tuple[int, int, int]:
        """Indices of the captured states."""
        low, mid, high = (int(part) for part in self.metadata["layers"].split(","))
        return low, mid, high

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Task:
        return cls(str(body["directory"]), int(body["first_number"]), dict(body["metadata"]))


@dataclass(frozen=True)
class Work:
    """The rows of an extraction: all of them, and those that are left."""

    wanted: list[RowRef]
    left: list[RowRef]
    stored: int
    """Rows with states on disk."""
    stored_train: int
    bad: int
    """Rows in quarantine."""


def set_up(run: RunDir, attempt: int, key: str, metadata: dict[str, str], wanted: set[str]) -> Task:
    """Find the directory in which the same extraction was begun, or make one.

    Directories of other extractions are removed unless the manifest names them: their states are
    of no use, and they take the disk. So is what a killed worker left half-written.
    """
    root = run.phase("extract")
    named = named_directories(run)
    begun: Path | None = None
    for directory in sorted(root.glob("shards-*")):
        same = _read_task(directory) == key
        if begun is None and same and ids_done(finished_shards(directory)) <= wanted:
            begun = directory
        elif directory.name not in named:
            shutil.rmtree(directory)
    mine = begun or _new_directory(root, attempt)
    if begun is None:
        atomic.write_json(mine / _TASK, {"key": key, **metadata})
    tidy(mine)
    close_quarantine(mine)
    numbers = [shard_number(path) for path in finished_shards(mine)]
    return Task(mine.name, max(numbers, default=-1) + 1, metadata)


def _new_directory(root: Path, attempt: int) -> Path:
    number = attempt
    while (path := root / f"shards-{number:04d}").exists():
        number += 1
    path.mkdir(parents=True)
    return path


def _read_task(directory: Path) -> str:
    body = atomic.read_json(directory / _TASK)
    return str(body.get("key")) if isinstance(body, dict) else ""


WINDOW: Final = "window"
"""Directory of the states that a training extracts by itself, window by window."""


def tidy(directory: Path) -> None:
    """Remove what a killed worker left half-written."""
    whole = {p.name.partition(".")[0] for p in finished_shards(directory)}
    for path in directory.iterdir():
        torn = path.name.endswith(".tmp")
        if torn or (
            path.name.endswith(".index.jsonl") and path.name.partition(".")[0] not in whole
        ):
            path.unlink()
    for path in directory.glob(_QUARANTINE):
        jsonl.repair(path)


def close_quarantine(directory: Path) -> None:
    """Gather what earlier attempts put away for good in one file. Only that counts as done before:
    a rank that looks late would otherwise see what another one has put away already, and share out
    other rows than it."""
    paths = sorted(directory.glob(_QUARANTINE))
    if not paths:
        return
    before = directory / _BEFORE
    atomic.write_bytes(before, b"".join(map(jsonl.encode, lasting(paths))))
    for path in paths:
        if path != before:
            path.unlink()


def named_directories(run: RunDir) -> set[str]:
    """Directories of shards that the manifest of phase 4 names."""
    made = manifest.read(run, "extract")
    return {Path(name).parts[0] for name in made.outputs} if made else set()


def remove_unnamed(run: RunDir) -> None:
    """Remove the shards of earlier extractions, after the manifest names the new ones."""
    named = named_directories(run)
    for directory in run.phase("extract").glob("shards-*"):
        if directory.name not in named:
            shutil.rmtree(directory)


def look_up(config: RunConfig, run: RunDir, task: Task) -> Work:
    """Which rows are left. The same for every rank, whatever others have written meanwhile."""
    directory = run.phase("extract") / task.directory
    old = [p for p in finished_shards(directory) if shard_number(p) < task.first_number]
    stored = ids_done(old)
    settings = config.extract
    wanted = to_store(read_rows(run, settings.samples, settings.max_tokens), settings.mode)
    before = directory / _BEFORE
    put_away = ids_done([], [before] if before.exists() else [])
    bad = (put_away - stored) & {row.id for row in wanted}
    return Work(
        wanted=wanted,
        left=[row for row in wanted if row.id not in stored and row.id not in bad],
        stored=len(stored),
        stored_train=sum(1 for row in wanted if row.split == "train" and row.id in stored),
        bad=len(bad),
    )


def quarantine_path(directory: Path, rank: int) -> Path:
    """Where a rank puts away the rows that it does not store."""
    return directory / f"quarantine-{rank:04d}.jsonl"


def gather_quarantine(
    run: RunDir, directory: Path, more: Sequence[Bad] = ()
) -> list[dict[str, Any]]:
    """Every row put away by any rank of any attempt, and `more`, also written to
    RUN/hidden/quarantine.jsonl where an operator looks for it; no file when there is none."""
    found: dict[str, dict[str, Any]] = {bad.id: asdict(bad) for bad in more}
    for path in sorted(directory.glob(_QUARANTINE)):
        for row in jsonl.rows(path):
            found.setdefault(str(row["id"]), row)
    target = run.phase("extract") / "quarantine.jsonl"
    if found:
        atomic.write_bytes(target, b"".join(jsonl.encode(row) for row in found.values()))
    else:
        target.unlink(missing_ok=True)
    return list(found.values())


def fingerprint(metadata: dict[str, str], inputs: dict[str, str]) -> str:
    """Names an extraction: work that was begun goes on only if all of this is the same. The number
    of samples is not in it, so that more can be asked for."""
    body = json.dumps([metadata, inputs], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()[:16]
