"""What both engines do around their measurements: the drafter first, the report last."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from eagle_tui import __version__
from eagle_tui.config.model import PHASES
from eagle_tui.rundir import atomic, manifest
from eagle_tui.rundir.paths import RunDir

from ..drafter.config import DrafterConfig, DrafterError, read_config
from ..worker import Refused, Worker
from .report import Report, markdown, model_card


@dataclass(frozen=True)
class Export:
    """The drafter under test."""

    directory: Path
    config: DrafterConfig


def open_export(worker: Worker) -> Export:
    """The exported drafter. Refused when there is none."""
    directory = worker.run.phase("train") / "export"
    if not (directory / "config.json").exists():
        raise Refused(f"{directory}: there is no exported drafter. Run the train phase first.")
    try:
        return Export(directory, DrafterConfig.from_json(read_config(directory / "config.json")))
    except DrafterError as error:
        raise Refused(f"{directory}: {error}") from error


def simulated_accept(run: RunDir) -> float | None:
    """The accept length that training has computed on held-out rows, if it told one."""
    made = manifest.read(run, "train")
    if made is None:
        return None
    for key in ("simulated_accept_length", "accept_length", "accept"):
        value = made.counts.get(key)
        if isinstance(value, int | float):
            return float(value)
    return None


def provenance(worker: Worker, export: Export, serve: dict[str, int]) -> dict[str, Any]:
    """From what the drafter was made: data, settings, versions, layers."""
    config, run = worker.config, worker.run
    made_from: dict[str, str] = {"target": config.target.model}
    for phase in PHASES[: PHASES.index("bench")]:
        made = manifest.read(run, phase)
        if made is None:
            continue
        made_from[f"{phase}: output"] = manifest.fingerprint(
            [made.inputs, made.counts, made.outputs]
        )
        for key in ("train", "val"):
            if isinstance(part := made.counts.get(key), dict):
                told = ", ".join(f"{value:,} {name}" for name, value in part.items())
                made_from[f"{phase}: {key}"] = told
        for name in ("target_hash", "layers", "norm", "dtype"):
            if isinstance(made.counts.get(name), str):
                made_from[f"{phase}: {name}"] = str(made.counts[name])
        for name, version in made.versions.items():
            made_from[f"{phase}: {name}"] = version
    for name, section in (("extract", config.extract), ("train", config.train)):
        for key, value in section.model_dump(mode="json", exclude_unset=True).items():
            made_from[f"[{name}] {key}"] = str(value)
    return {
        "target": config.target.model,
        "layers": ", ".join(map(str, export.config.layers)),
        "draft_vocab_size": export.config.draft_vocab_size,
        "datasets": [dataset.name for dataset in config.dataset],
        "serve": serve,
        "made_from": made_from,
    }


def versions() -> dict[str, str]:
    """Of what measured."""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "eagle_tui": __version__,
    }


def write(worker: Worker, report: Report, inputs: dict[str, str], used: dict[str, str]) -> None:
    """Write report.json, report.md, the model card and the manifest, and say the verdict."""
    run, name = worker.run, worker.config.run.name
    directory = run.phase("bench")
    paths = [directory / "report.json", directory / "report.md"]
    atomic.write_json(paths[0], report.to_json())
    atomic.write_text(paths[1], markdown(report, name))
    atomic.write_text(run.phase("train") / "export" / "README.md", model_card(report, name))
    worker.log.note(report.verdict, "info" if report.speedup["low"] > 1 else "warning")
    worker.finish(
        counts={
            "accept_length": report.accept_overall,
            "greedy_identical": report.greedy_identical,
            "baseline_tok_s": report.baseline.get("tok_s"),
            "drafter_tok_s": report.drafter.get("tok_s"),
            "speedup": report.speedup,
            "verdict": report.verdict,
        },
        outputs=paths,
        versions=used,
        inputs=inputs,
    )
