"""What the benchmark leaves: report.json for programs, report.md for people, the model card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .verdict import hints

SCHEMA = "eagle-tui-bench-1"


@dataclass(frozen=True)
class Setting:
    """One combination of the sweep, measured."""

    steps: int
    topk: int
    draft_tokens: int
    concurrency: int
    """0: all of them, where none could be measured."""
    accept: float | None
    baseline_tok_s: float
    drafter_tok_s: float
    speedup: dict[str, float]
    failed: str = ""
    """Why it could not be measured; empty when it was."""

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "topk": self.topk,
            "draft_tokens": self.draft_tokens,
            "concurrency": self.concurrency,
            "accept_length": self.accept,
            "baseline_tok_s": self.baseline_tok_s,
            "drafter_tok_s": self.drafter_tok_s,
            "speedup": self.speedup,
            "failed": self.failed,
        }


@dataclass(frozen=True)
class Report:
    """`report.json`. Its keys are kept: other programs read them."""

    engine: str
    accept_overall: float | None
    accept_by_dataset: dict[str, float | None]
    simulated_accept_length: float | None
    greedy_identical: bool | None
    """None when sampling: there is nothing that must be the same."""
    identity: dict[str, Any]
    """Prompts compared, equal ones, those that part at a tie, and an example of a difference."""
    baseline: dict[str, Any]
    drafter: dict[str, Any]
    speedup: dict[str, float]
    settings: dict[str, Any]
    verdict: str
    conditional: list[float | None] = field(default_factory=list)
    """Of each draft step: how often it was accepted where all before it were."""
    sweep: Sequence[Setting] = ()
    speed_by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "accept_length": {
                "overall": self.accept_overall,
                "by_dataset": self.accept_by_dataset,
                "conditional": self.conditional,
            },
            "simulated_accept_length": self.simulated_accept_length,
            "greedy_identical": self.greedy_identical,
            "identity": self.identity,
            "baseline": self.baseline,
            "drafter": self.drafter,
            "speedup": self.speedup,
            "settings": {"engine": self.engine, **self.settings},
            "verdict": self.verdict,
            "hints": list(hints(self.accept_overall)),
            "sweep": [setting.to_json() for setting in self.sweep],
            "by_dataset": self.speed_by_dataset,
            "provenance": self.provenance,
        }


def markdown(report: Report, title: str) -> str:
    """report.md."""
    lines = [f"# Benchmark of {title}", "", report.verdict, ""]
    if told := hints(report.accept_overall):
        lines += ["Where to look:", "", *(f"- {hint}" for hint in told), ""]
    lines += _table(
        ("", "without the drafter", "with it"),
        [
            ("tok/s", _number(report.baseline.get("tok_s")), _number(report.drafter.get("tok_s"))),
            ("accept length", "1.00", _number(report.accept_overall, 2)),
            ("… simulated in training", "", _number(report.simulated_accept_length, 2)),
        ],
    )
    lines += _identity_line(report)
    lines += ["", "## Datasets", ""]
    rows = []
    for name, accept in report.accept_by_dataset.items():
        speed = report.speed_by_dataset.get(name, {})
        rows.append(
            (
                f"`{name}`",
                _number(accept, 2),
                _number(speed.get("baseline_tok_s")),
                _number(speed.get("drafter_tok_s")),
                _times(speed.get("speedup")),
            )
        )
    lines += _table(
        ("dataset", "accept length", "tok/s without", "tok/s with", "times as fast"), rows
    )
    if report.conditional:
        lines += ["", "## Draft steps", "", "Accepted where all steps before were:", ""]
        cells = [(str(i + 1), _percent(v)) for i, v in enumerate(report.conditional)]
        lines += _table(("step", "accepted"), cells)
    if len(report.sweep) > 1:
        lines += ["", "## Settings tried", "", *_sweep(report.sweep)]
    return "\n".join(lines) + "\n"


def model_card(report: Report, title: str) -> str:
    """README.md of the exported drafter: what it is, how good, how it was made."""
    made = report.provenance
    serve = made.get("serve", {})
    lines = [
        "---",
        "library_name: sglang",
        "tags: [speculative-decoding, eagle3]",
        "---",
        f"# EAGLE-3 drafter of {title}",
        "",
        f"A draft model of one layer for `{made.get('target', '?')}`. Measured: {report.verdict}",
        "",
        "## Use",
        "",
        "```",
        f"python -m sglang.launch_server --model-path {made.get('target', '?')} \\",
        "  --speculative-algorithm EAGLE3 --speculative-draft-model-path DIRECTORY \\",
        f"  --speculative-num-steps {serve.get('steps', 3)} "
        f"--speculative-eagle-topk {serve.get('topk', 1)} "
        f"--speculative-num-draft-tokens {serve.get('draft_tokens', 4)}",
        "```",
        "",
        "It reads the *inputs* of layers "
        f"{made.get('layers', '?')} of the target (as elements of `hidden_states`); config.json "
        "holds them as the layers whose *output* they are, one less, which is what SGLang expects.",
        "",
        "## Figures",
        "",
        f"Engine: {report.engine}; prompts that were not trained on. The accept length counts the "
        "bonus token.",
        "",
    ]
    lines += _table(
        ("dataset", "accept length"),
        [
            *((f"`{n}`", _number(a, 2)) for n, a in report.accept_by_dataset.items()),
            ("all", _number(report.accept_overall, 2)),
        ],
    )
    lines += ["", "## How it was made", ""]
    rows = [(_cell(k), f"`{_cell(value)}`") for k, value in made.get("made_from", {}).items()]
    lines += _table(("what", "value"), rows)
    return "\n".join(lines) + "\n"


def _identity_line(report: Report) -> list[str]:
    if report.greedy_identical is None:
        return ["", "Sampled: the output is another with each run, of the same distribution."]
    body = report.identity
    compared, equal = body.get("compared", 0), body.get("equal", 0)
    text = f"Greedy output with the drafter is that without it for {equal} of {compared} prompts"
    ties = body.get("ties", 0)
    if ties:
        text += f"; {ties} part where the target's two best tokens are as good as equal"
    if alone := body.get("alone"):
        text += (
            f". The target alone, at concurrency {alone['concurrency']}, gives the same as itself "
            f"for {alone['equal']}"
        )
    return ["", f"{text}."]


def _sweep(sweep: Sequence[Setting]) -> list[str]:
    rows = [
        (
            str(s.steps),
            str(s.topk),
            str(s.draft_tokens),
            str(s.concurrency or "–"),
            *(
                (f"failed: {_cell(s.failed)}", "", "", "")
                if s.failed
                else (
                    _number(s.accept, 2),
                    _number(s.baseline_tok_s),
                    _number(s.drafter_tok_s),
                    _times(s.speedup),
                )
            ),
        )
        for s in sweep
    ]
    head = ("steps", "topk", "draft tokens", "concurrency", "accept length")
    return _table((*head, "tok/s without", "tok/s with", "times as fast"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("`", "'")[:120]


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _times(speedup: dict[str, float] | None) -> str:
    """`0.94 (0.90–0.98)`."""
    if not speedup:
        return "–"
    return f"{speedup['mean']:.2f} ({speedup['low']:.2f}–{speedup['high']:.2f})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
