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

from .. import targets
from ..drafter.check import check_export
from ..drafter.config import DrafterConfig, DrafterError, read_config
from ..drafter.target_weights import TargetWeights
from ..worker import Refused, Worker
from .report import Report, markdown, model_card


@dataclass(frozen=True)
class Export:
    """The drafter under test."""

    directory: Path
    config: DrafterConfig
    target: TargetWeights


def open_export(worker: Worker) -> Export:
    """The exported drafter, after everything that would make it useless in serving was looked for.
    Refused when there is none, or when something was found."""
    directory = worker.run.phase("train") / "export"
    if not (directory / "config.json").exists():
        raise Refused(f"{directory}: there is no exported drafter. Run the train phase first.")
    try:
        target = TargetWeights.open(targets.resolve_model(worker.config, worker.run))
        findings = check_export(directory, target, layers=trained_layers(worker.run))
        wrong = [finding.sentence for finding in findings if finding.error]
        if wrong:
            raise Refused(f"{directory}: this drafter would not serve: {'; '.join(wrong)}.")
        config = DrafterConfig.from_json(read_config(directory / "config.json"))
    except DrafterError as error:
        raise Refused(f"{directory}: {error}") from error
    for finding in findings:
        worker.log.note(finding.sentence, "warning")
    return Export(directory, config, target)


def trained_layers(run: RunDir) -> tuple[int, int, int] | None:
    """Indices of the hidden states with which the drafter was trained, if the run knows them."""
    made = manifest.read(run, "extract")
    told = str(made.counts.get("layers", "")).split(",") if made else []
    if len(told) != 3:
        return None
    low, mid, high = (int(layer) for layer in told)
    return low, mid, high


def simulated_accept(run: RunDir) -> float | None:
    """The accept length that training has computed on held-out rows, if it told one."""
    made = manifest.read(run, "train")
    if made is None:
        return None
    value = made.counts.get("accept")
    return float(value) if isinstance(value, int | float) else None


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
        for key, value in made.counts.items():
            if key in ("train", "val") and isinstance(value, dict):
                value = ", ".join(f"{count:,} {name}" for name, count in value.items())
            if isinstance(value, str | int | float):
                made_from[f"{phase}: {key}"] = str(value)
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
