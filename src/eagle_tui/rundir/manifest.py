"""Manifests: from which inputs a phase's output was made, so that it can be called stale."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from eagle_tui.config.model import DatasetSection, RunConfig
from eagle_tui.config.target import path_of
from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir

SAMPLED = 1 << 16
"""Bytes at each end of a source file that are looked at for its fingerprint."""

UPSTREAM: dict[str, tuple[str, ...]] = {
    "prepare": (),
    "generate": ("prepare",),
    "merge": ("prepare", "generate"),
    "extract": ("merge",),
    "train": ("extract",),
    "bench": ("train",),
}
"""Of which phases a phase uses the output."""

_SUFFIXES = ("jsonl", "json", "ndjson", "parquet", "traj")

SETTINGS: dict[str, set[str]] = {
    "merge": set(),
    "extract": {"nproc", "device", "batch_tokens", "keep_free_bytes", "rolling_window_gb"},
    "train": {"nproc", "device", "checkpoint_s", "compile", "strategy"},
    "bench": set(),
}
"""Phases whose section is among their inputs, with the settings that change only how fast."""


class Manifest(BaseModel):
    """`manifest.json` in a phase's directory, written last: it says that the phase is done."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    phase: str
    made_at: float
    attempt: int
    inputs: dict[str, str]
    """Fingerprint of each thing it was made from, by a name that an operator understands."""
    counts: dict[str, Any] = {}
    outputs: dict[str, int] = {}
    """Path relative to the phase's directory → size in bytes."""
    versions: dict[str, str] = {}
    early: str = ""
    """What was left out because the operator advanced early; empty when nothing was."""


def fingerprint(body: Any) -> str:
    """Short hash of a JSON-like value."""
    text = json.dumps(body, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_fingerprint(path: Path) -> str:
    """Hash of a file's size, beginning and end: cheap for files of many GB, and the same for a copy
    of the file; of a directory, of the names in it. `missing` if absent, `unreadable` if so."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            digest = hashlib.sha256(file.read(SAMPLED))
            file.seek(max(0, size - SAMPLED))
            digest.update(file.read(SAMPLED))
        return fingerprint([size, digest.hexdigest()])
    except IsADirectoryError:
        try:
            return fingerprint(sorted(p.name for p in path.iterdir()))
        except OSError:
            return "unreadable"
    except OSError:
        return "unreadable" if os.path.lexists(path) else "missing"


def source_path(run: RunDir, dataset: DatasetSection) -> Path | None:
    """The local file a dataset is read from; None when `source` is a Hugging Face id.

    A source is a file if it exists, or has a suffix that we read, or begins with `.`, `/` or `~`.
    """
    path = path_of(dataset.source, run.root)
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    looks_local = suffix in _SUFFIXES or dataset.source.startswith((".", "/", "~"))
    # Unlike Path.exists this raises nothing, whatever the name.
    return path if looks_local or os.path.exists(path) else None  # noqa: PTH110


def inputs_of(config: RunConfig, run: RunDir, phase: str) -> dict[str, str]:
    """Fingerprints of all that `phase` would be made from now.

    Of settings those count that differ from their defaults: a newer program has settings more, and
    what was made before it had them is not stale for that.
    """
    target = _settings(config.target)
    if config.target.chat_template:
        # What is in it counts, not where it lies: a run may be copied and moved.
        template = path_of(config.target.chat_template, run.root)
        target["chat_template"] = file_fingerprint(template)
    if phase == "prepare":
        found = {
            "target": fingerprint(target),
            "[prepare]": fingerprint(_settings(config.prepare)),
        }
        for dataset in config.dataset:
            body = _settings(dataset, include={"source", "kind", "subset", "split", "samples"})
            path = source_path(run, dataset)
            found[f"dataset {dataset.name}"] = fingerprint(
                [body, file_fingerprint(path) if path else None]
            )
        return found
    found = {}
    if phase == "generate":
        found["target"] = fingerprint(target)
        found["sampling settings"] = fingerprint(
            _settings(config.generate, include={"temperature", "top_p", "top_k", "min_p"})
        )
    if phase in SETTINGS:
        settings = _settings(getattr(config, phase), exclude=SETTINGS[phase])
        found[f"[{phase}]"] = fingerprint(settings)
    if phase == "merge":
        held_out = {d.name: d.hold_out for d in config.dataset if d.hold_out is not None}
        if held_out:
            found["hold_out"] = fingerprint(held_out)
    for earlier in UPSTREAM[phase]:
        if earlier in config.run.phases:
            found[f"output of {earlier}"] = _output(run, earlier)
    return found


def _settings(section: BaseModel, **choice: set[str]) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude_defaults=True, **choice)  # type: ignore[arg-type]


def _output(run: RunDir, phase: str) -> str:
    try:
        made = read(run, phase)
    except (OSError, ValueError):
        return "unreadable"
    return fingerprint([made.counts, made.outputs] if made else None)


def read(run: RunDir, phase: str) -> Manifest | None:
    """The phase's manifest; None when it has not finished. ValueError: it cannot be read."""
    path = run.manifest(phase)
    body = atomic.read_json(path)
    try:
        return None if body is None else Manifest.model_validate(body)
    except ValidationError as error:
        wrong = ", ".join(sorted({".".join(map(str, e["loc"])) or "all" for e in error.errors()}))
        raise ValueError(f"{path}: no manifest; wrong or missing: {wrong}") from error


def write(run: RunDir, manifest: Manifest) -> None:
    """Write the manifest: from now on the phase is done."""
    atomic.write_json(run.manifest(manifest.phase), manifest.model_dump(mode="json"))


def stale_reason(made: Manifest, now: dict[str, str]) -> str:
    """Which inputs changed since `made`, in words; empty when none did."""
    changed = [name for name, value in now.items() if made.inputs.get(name) != value]
    gone = [name for name in made.inputs if name not in now]
    parts = ([f"changed: {', '.join(changed)}"] if changed else []) + (
        [f"gone: {', '.join(gone)}"] if gone else []
    )
    return "; ".join(parts)
