"""The benchmark's result as words and table cells, for the screen and the command alike. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from eagle_tui import fmt
from eagle_tui.protocol import PhaseStatus, Status
from eagle_tui.result import (
    WORDS,
    BenchReport,
    DatasetResult,
    Kind,
    Outcome,
    SettingResult,
    Speedup,
)

STATES: dict[Kind, str] = {"gain": "ok", "loss": "error", "even": "warning"}
"""The glyph and colour of a kind, as those of a state."""
SIDES: dict[Kind, str] = {"gain": "faster", "loss": "slower", "even": "as fast"}
"""One word beside a figure."""
DATASET_HEADS = ("dataset", "-accept", "-tok/s without", "-tok/s with", "-× as fast", "")
SETTING_HEADS = (
    *("-steps", "-topk", "-draft", "-at once", "-accept", "-tok/s without", "-tok/s with"),
    *("-× as fast", ""),
)


def headline(outcome: Outcome) -> str:
    """`a loss: 0.94 × as fast with the drafter (0.90–0.98)`."""
    gain = outcome.speedup
    if gain is None:
        return "no speed-up was measured"
    word = f"{WORDS[gain.kind]}: " if gain.kind else ""
    return f"{word}{gain.mean:.2f} × as fast with the drafter{_ends(gain)}"


def speedup_cell(gain: Speedup | None) -> str:
    """`0.94 (0.90–0.98)`."""
    return fmt.NONE if gain is None else f"{gain.mean:.2f}{_ends(gain)}"


def _ends(gain: Speedup) -> str:
    return f" ({gain.low:.2f}–{gain.high:.2f})" if gain.kind else ""


def tok_s(value: float | None) -> str:
    """As the benchmark's report writes it: `2,776.1`."""
    return fmt.NONE if value is None else f"{value:,.1f}"


def facts(report: BenchReport) -> list[tuple[str, str]]:
    """Label and words of what was measured over all, the most important first."""
    outcome, foretold = report.outcome, fmt.NONE
    if report.simulated is not None:
        foretold = f"training foretold {report.simulated:.2f}"
        if (apart := report.foretold_apart) is not None:
            side = "too much" if apart > 0 else "too little"
            foretold += f": {abs(apart):.0%} {side}"
    found = [
        (
            "tok/s",
            f"{tok_s(outcome.drafter_tok_s)} with, {tok_s(outcome.baseline_tok_s)} without it",
        ),
        ("accept", f"length {fmt.decimal(outcome.accept)}; {foretold}"),
        ("output", _output(report)),
    ]
    if report.conditional:
        steps = "  ".join(f"step {i + 1} {_percent(v)}" for i, v in enumerate(report.conditional))
        found.append(("accepted", steps))
    return found


def _percent(share: float | None) -> str:
    return fmt.NONE if share is None else f"{share:.0%}"


def _output(report: BenchReport) -> str:
    found = report.identity
    if report.outcome.identical is None and found is None:
        return "sampled: another with each run" if report.temperature else fmt.NONE
    if found is None:
        return "greedy: the same" if report.outcome.identical else "greedy: another"
    text = f"greedy: identical for {found.equal}/{found.compared} prompts"
    if found.ties:
        text += f"; {found.ties} part at a tie"
    if rest := found.compared - found.equal - found.ties:
        text += f"; {rest} part otherwise" if rest > 0 else ""
    if found.alone_equal is not None:
        text += (
            f"; the target alone, {found.alone_concurrency or '?'} at a time, is like itself for "
            f"{found.alone_equal}"
        )
    return text


def dataset_cells(row: DatasetResult) -> tuple[str, ...]:
    """Under DATASET_HEADS."""
    gain = row.speedup
    return (
        *(row.name, fmt.decimal(row.accept), tok_s(row.baseline_tok_s), tok_s(row.drafter_tok_s)),
        *(speedup_cell(gain), SIDES[gain.kind] if gain and gain.kind else ""),
    )


def setting_cells(row: SettingResult) -> tuple[str, ...]:
    """Under SETTING_HEADS."""
    gain = row.speedup
    told = f"failed: {row.failed}" if row.failed else SIDES[gain.kind] if gain and gain.kind else ""
    what = (row.steps, row.topk, row.draft_tokens, row.concurrency or None)
    measured = (
        *(fmt.decimal(row.accept), tok_s(row.baseline_tok_s), tok_s(row.drafter_tok_s)),
        speedup_cell(gain),
    )
    return (
        *(fmt.exact(value) for value in what),
        *(("", "", "", "") if row.failed else measured),
        f"{told}, best" if row.best else told,
    )


def waiting(phases: Sequence[PhaseStatus]) -> list[str]:
    """Why there is no result, and what comes first: `bench has not run: train runs, 30–45 min
    left`; below it what training foretells so far."""
    by_name = {phase.name: phase for phase in phases}
    bench, train = by_name.get("bench"), by_name.get("train")
    if bench is None:
        return ["This run has no benchmark"]
    said = [_why(bench, phases)]
    accept = train.figures.get("accept") if train is not None else None
    if accept is not None:
        said.append(f"Training foretells an accept length of {fmt.decimal(accept)} so far")
    return said


def _why(bench: PhaseStatus, phases: Sequence[PhaseStatus]) -> str:
    if bench.state in ("running", "draining", "paused", "stalled", "failed", "done"):
        # `done`: its files are read anew in a moment.
        return _at_work(bench)
    before = [p for p in phases[: list(phases).index(bench)] if p.state != "done"]
    before = [p for p in before if not (p.state == "blocked" and not p.attempt)] or before
    if bench.state == "blocked" and not any(p.state in ("failed", "stale") for p in before):
        return f"bench does not run: {bench.reason}" if bench.reason else "bench does not run"
    if not before:
        return f"bench has not run{f': {bench.reason}' if bench.reason else ''}"
    return f"bench has not run: {_at_work(before[0])}"


def _at_work(phase: PhaseStatus) -> str:
    verb = "runs" if phase.state == "running" else f"is {phase.state}"
    text = f"{phase.name} {verb}"
    if phase.done is not None and phase.state != "done":
        text += f", {fmt.progress(phase.done, phase.total)} {phase.unit}".rstrip()
    if phase.eta_s is not None:
        text += f", {fmt.eta(phase.eta_s)} left"
    return text + (f": {phase.reason}" if phase.reason else "")


def stale(status: Status) -> str:
    """That the result is of another state of the run, and why; empty when it is not."""
    bench = next((phase for phase in status.phases if phase.name == "bench"), None)
    return f"bench is stale: {bench.reason}" if bench and bench.state == "stale" else ""
