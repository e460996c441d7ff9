"""The end of phase 5: export the best checkpoint, check it, write the manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import safetensors
import torch

from eagle_tui.config.target import BUILTIN

from ..drafter.check import check_export
from ..drafter.export import write_export, write_speculators
from ..worker import Failed, Worker
from .checkpoints import Checkpoints
from .loop import BY_OPERATOR, Ending
from .report import Reporter
from .setup import Material

EXPORT: Final = "export"
EXPORT_SPECULATORS: Final = "export-speculators"


def publish(
    worker: Worker,
    material: Material,
    checkpoints: Checkpoints,
    ending: Ending,
    inputs: dict[str, str],
    report: Reporter,
) -> None:
    """Write RUN/drafter/export and export-speculators from the best checkpoint, and the manifest.
    Failed when the export does not pass its own check."""
    state, tensors = checkpoints.best()
    root = worker.run.phase("train")
    target, model = material.target, worker.config.target.model
    about = {"steps": state.step, "accept_length_simulated": state.accept}
    config = replace(material.config, extra={"eagle_tui": about})
    outputs = write_export(root / EXPORT, config, tensors)
    outputs += write_speculators(
        root / EXPORT_SPECULATORS,
        material.config,
        tensors,
        target.embedding(),
        model if not model.startswith(BUILTIN) else str(target.path),
        [str(name) for name in target.config.get("architectures") or []],
    )
    findings = check_export(root / EXPORT, target, layers=material.config.layers)
    for finding in findings:
        report.note(f"export: {finding.sentence}", warning=True)
    errors = [finding.sentence for finding in findings if finding.error]
    if errors:
        raise Failed(f"The exported drafter would not serve: {'; '.join(errors)}")
    report.note(
        f"exported the checkpoint of step {state.step:,} to {_short(root / EXPORT)} and "
        f"{_short(root / EXPORT_SPECULATORS)}; serve it with --speculative-algorithm EAGLE3"
    )
    worker.finish(
        counts=_counts(material, ending, state.step, state.validated),
        outputs=outputs,
        versions={"torch": str(torch.__version__), "safetensors": str(safetensors.__version__)},
        inputs=inputs,
        early=_early(ending),
    )


def _counts(
    material: Material, ending: Ending, best_step: int, judged: dict[str, Any] | None
) -> dict[str, object]:
    """Figures of the manifest; those of the validation are of the exported checkpoint."""
    figures = judged or {}
    state = ending.state
    return {
        "steps": state.step,
        "of_steps": ending.total,
        "best_step": best_step,
        "tokens": state.tokens,
        "rows": state.rows,
        "accept": figures.get("accept"),
        "accept_by_dataset": figures.get("accept_by_dataset", {}),
        "acc": figures.get("acc", []),
        "joint": figures.get("joint", []),
        "alpha": figures.get("alpha", []),
        "coverage": round(material.vocabulary.coverage, 6),
        "draft_vocab": len(material.vocabulary.ids),
        "layers": list(material.config.layers),
        "ended": ending.why or "all steps done",
    }


def _early(ending: Ending) -> str:
    if ending.why != BY_OPERATOR:
        return ""
    return f"ended at step {ending.state.step:,} of {ending.total:,}"


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])
