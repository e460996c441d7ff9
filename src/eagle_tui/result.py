"""What the benchmark of a run found, as it is read from RUN/bench/report.json.

A module of its own, beside `records`, because few looks need it.
"""

from __future__ import annotations

from typing import Literal

from eagle_tui.protocol import Frozen

Kind = Literal["gain", "loss", "even"]
WORDS: dict[Kind, str] = {"gain": "a gain", "loss": "a loss", "even": "neither a gain nor a loss"}


class Speedup(Frozen):
    """How many times as fast the drafter makes it, with the 95 % interval where there is one."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def kind(self) -> Kind | None:
        """Whether it is a gain at all: only what the whole interval says. None: no interval."""
        if self.low is None or self.high is None:
            return None
        return "gain" if self.low > 1 else "loss" if self.high < 1 else "even"


class Outcome(Frozen):
    """The benchmark in a few figures, those of its best setting. None: not known."""

    accept: float | None = None
    """Accept length: tokens a round, bonus token included."""
    baseline_tok_s: float | None = None
    drafter_tok_s: float | None = None
    speedup: Speedup | None = None
    identical: bool | None = None
    """Whether greedy output is that without the drafter; None as well when sampling."""
    verdict: str = ""
    """The benchmark's own sentence."""

    @property
    def brief(self) -> str:
        """`a loss, 0.90–0.98 × as fast with the drafter; accept length 1.92`; empty when neither
        is known."""
        parts = []
        if (gain := self.speedup) is not None:
            word = f"{WORDS[gain.kind]}, " if gain.kind else ""
            ends = f"{gain.low:.2f}–{gain.high:.2f}" if gain.kind else f"{gain.mean:.2f}"
            parts.append(f"{word}{ends} × as fast with the drafter")
        if self.accept is not None:
            parts.append(f"accept length {self.accept:.2f}")
        return "; ".join(parts)


class DatasetResult(Frozen):
    """One dataset at the best setting; speeds are those of single requests, in tokens a second."""

    name: str
    accept: float | None = None
    baseline_tok_s: float | None = None
    drafter_tok_s: float | None = None
    speedup: Speedup | None = None


class SettingResult(Frozen):
    """One row of the sweep: settings of speculation at a number of requests at a time."""

    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    concurrency: int | None = None
    """0: all of them, where none could be measured."""
    accept: float | None = None
    baseline_tok_s: float | None = None
    drafter_tok_s: float | None = None
    speedup: Speedup | None = None
    failed: str = ""
    """Why it could not be measured; empty when it was."""
    best: bool = False


class Identity(Frozen):
    """Greedy answers with the drafter against those without it, in prompts."""

    compared: int
    equal: int
    ties: int = 0
    """Those that part where the target's two best tokens are as good as equal."""
    example: str = ""
    """Where one parts without such a reason."""
    alone_concurrency: int | None = None
    alone_equal: int | None = None
    """How often the target alone, at another number of requests, gives the same as itself."""


class BenchReport(Frozen):
    """report.json, as far as it could be read."""

    outcome: Outcome = Outcome()
    engine: str = ""
    prompts: int | None = None
    temperature: float | None = None
    simulated: float | None = None
    """The accept length that training foretold on held-out rows."""
    identity: Identity | None = None
    conditional: tuple[float | None, ...] = ()
    """Of each draft step: how often it was accepted where all before it were, 0 to 1."""
    datasets: tuple[DatasetResult, ...] = ()
    settings: tuple[SettingResult, ...] = ()
    hints: tuple[str, ...] = ()
    """Where to look when the accept length is poor."""
    serve: str = ""
    """The command line that serves target and drafter; empty when SGLang cannot, or the target is
    not named."""
    flags: str = ""
    """Further flags of the server that was measured."""

    @property
    def foretold_apart(self) -> float | None:
        """How far training's accept length is from the one measured, as a share of that one."""
        accept = self.outcome.accept
        return (self.simulated - accept) / accept if self.simulated and accept else None


class ResultFile(Frozen):
    """Something that the run leaves at its end."""

    label: str
    path: str


class ResultRecord(Frozen):
    """What there is of a result."""

    made_at: float | None = None
    """Unix time at which the benchmark was done; None: it is not."""
    report: BenchReport | None = None
    problem: str = ""
    """Why a report that should be there cannot be shown."""
    files: tuple[ResultFile, ...] = ()
    """Those that are there."""
