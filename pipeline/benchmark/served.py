"""Measuring with SGLang: the server of run.toml without and with the drafter, in turn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from eagle_tui.config.speculation import algorithm_fault
from eagle_tui.rundir.manifest import fingerprint

from .. import targets
from ..drafter.config import read_config
from ..worker import Failed, Refused, Worker
from .figures import COPY, Speedup, paired_speedup, rounded, speeds_by_dataset
from .identity import Identity, Pair, compare
from .measure import Kept, Measurement
from .outcome import open_export, provenance, simulated_accept, versions, write
from .prompts import held_out
from .report import Report, Setting
from .serving import launchable, merged
from .sweep import BASELINE, Sweep, Variant, variants
from .verdict import verdict

TIE_GAP = 0.25
"""Logits in bfloat16 are steps of an eighth and more apart; so close together they may change
places with the shape of the batch."""
MOST_NOISE = 1.0
"""A target whose own answers are further from its choice than this is not rounding."""


@dataclass(frozen=True)
class Compared:
    """A variant at a concurrency, against the baseline."""

    variant: Variant
    base: Measurement
    with_drafter: Measurement
    gain: Speedup


class Served:
    """One benchmark by SGLang."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._settings = worker.config.bench
        self._section = launchable(worker)
        self._export = open_export(worker)
        self._refuse_wrong_algorithm()
        room = targets.context_length(worker.config, worker.run) - self._settings.max_new_tokens
        # SGLang keeps a few places of the context for itself.
        self._prompts = held_out(worker.run, self._settings.prompts, room - 8)
        s = self._settings
        self._variants = variants(s.steps, s.topk, s.draft_tokens)
        if not self._variants:
            raise Refused(
                "bench.draft_tokens holds no number that bench.steps and bench.topk can give"
            )

    def _refuse_wrong_algorithm(self) -> None:
        config = read_config(self._export.directory / "config.json")
        section = self._section
        words = list(section.command)
        named = [str(v) for k, v in merged(section, {}).items() if k.endswith("-algorithm")]
        named += [value for flag, value in pairwise(words) if flag.endswith("-algorithm")]
        for algorithm in named:
            if fault := algorithm_fault(config, algorithm):
                raise Refused(f"[[server]] {section.name}: {fault}")
        if any(word.startswith("--speculative") for word in words):
            raise Refused(
                f"[[server]] {section.name}: its command speculates already, so it cannot be "
                "measured without. Take the --speculative flags out of command."
            )

    def run(self, inputs: dict[str, str]) -> None:
        """Measure, and write the report. Failed when the baseline, or every setting, fails."""
        key = fingerprint(
            [
                {name: value for name, value in inputs.items() if not name.startswith("[")},
                [p.id for p in self._prompts],
                self._settings.model_dump(exclude={"steps", "topk", "draft_tokens", "concurrency"}),
                self._section.model_dump(),
            ]
        )
        kept = Kept(self._worker.run.phase("bench") / "measured.jsonl", key)
        sweep = Sweep(
            self._worker,
            self._section,
            self._export.directory,
            self._prompts,
            len(self._variants),
            kept,
        )
        try:
            sweep.run(None)
            if not any(kept.get(BASELINE, c) for c in self._settings.concurrency):
                raise Failed(f"The target without the drafter: {_reasons(sweep)}")
            for variant in self._variants:
                sweep.run(variant)
        finally:
            kept.close()
        compared = self._compare(kept)
        if not compared:
            raise Failed(f"No setting of the drafter could be measured. {_reasons(sweep)}")
        self._write(kept, sweep, compared, inputs)

    # -- telling -----------------------------------------------------------------------------------

    def _compare(self, kept: Kept) -> list[Compared]:
        found: list[Compared] = []
        for variant in self._variants:
            for concurrency in self._settings.concurrency:
                base = kept.get(BASELINE, concurrency)
                one = kept.get(variant.name, concurrency)
                if base is None or one is None:
                    continue
                gain = paired_speedup(
                    [a.timed for a in base.answers],
                    [a.timed for a in one.answers],
                    factor=one.tok_s / base.tok_s,
                )
                found.append(Compared(variant, base, one, gain))
        return found

    def _write(
        self, kept: Kept, sweep: Sweep, compared: list[Compared], inputs: dict[str, str]
    ) -> None:
        best = max(compared, key=lambda c: c.gain.mean)
        steps, base, one = best.variant.steps, best.base, best.with_drafter
        accept = one.accept(steps)
        greedy = self._settings.temperature == 0
        identity = identity_of(base, one) if greedy else None
        elsewhere: dict[int, Speedup] = {}
        for c in compared:
            number = c.with_drafter.concurrency
            if number != one.concurrency and (
                number not in elsewhere or c.gain.mean > elsewhere[number].mean
            ):
                elsewhere[number] = c.gain
        names = list(dict.fromkeys(p.dataset for p in self._prompts))
        serve = {
            "steps": steps,
            "topk": best.variant.topk,
            "draft_tokens": best.variant.draft_tokens,
        }
        report = Report(
            engine="sglang",
            accept_overall=rounded(accept.length),
            accept_by_dataset={n: rounded(one.accept(steps, n).length) for n in names},
            simulated_accept_length=simulated_accept(self._worker.run),
            greedy_identical=identity.holds if identity else None,
            identity={**identity.to_json(), **self._alone(kept, base)} if identity else {},
            baseline=_side(base),
            drafter=_side(one),
            speedup=best.gain.to_json(),
            settings={
                **serve,
                "concurrency": one.concurrency,
                "temperature": self._settings.temperature,
                "max_new_tokens": self._settings.max_new_tokens,
                "prompts": len(self._prompts),
                "flags": sweep.flags(best.variant),
            },
            verdict=verdict(
                best.gain,
                baseline_tok_s=base.tok_s,
                drafter_tok_s=one.tok_s,
                accept=accept.length,
                concurrency=one.concurrency,
                steps=steps,
                greedy_identical=identity.holds if identity else None,
                elsewhere=elsewhere,
            ),
            conditional=accept.conditional(steps),
            sweep=[self._setting(c) for c in compared] + self._failures(sweep),
            speed_by_dataset=speeds_by_dataset(
                [a.timed for a in base.answers], [a.timed for a in one.answers]
            ),
            provenance=provenance(self._worker, self._export, serve),
        )
        write(self._worker, report, inputs, {**versions(), "sglang": sweep.version})

    def _alone(self, kept: Kept, base: Measurement) -> dict[str, Any]:
        """How often the target alone gives the same as itself at another concurrency."""
        for concurrency in self._settings.concurrency:
            other = kept.get(BASELINE, concurrency)
            if other is not None and concurrency != base.concurrency:
                alone = identity_of(base, other)
                return {"alone": {"concurrency": concurrency, "equal": alone.equal}}
        return {}

    def _setting(self, c: Compared) -> Setting:
        v, one = c.variant, c.with_drafter
        return Setting(
            steps=v.steps,
            topk=v.topk,
            draft_tokens=v.draft_tokens,
            concurrency=one.concurrency,
            accept=rounded(one.accept(v.steps).length),
            baseline_tok_s=round(c.base.tok_s, 2),
            drafter_tok_s=round(one.tok_s, 2),
            speedup=c.gain.to_json(),
        )

    def _failures(self, sweep: Sweep) -> list[Setting]:
        return [
            Setting(v.steps, v.topk, v.draft_tokens, concurrency, None, 0.0, 0.0, {}, why)
            for v in self._variants
            for (name, concurrency), why in sweep.failed.items()
            if name == v.name
        ]


def identity_of(base: Measurement, one: Measurement) -> Identity:
    """Greedy answers with the drafter against those of the target alone, whose gaps are known."""
    others = {a.id: a for a in one.answers}
    return compare(
        (
            Pair(f"{a.id} of {a.dataset}", a.ids, others[a.id].ids, base.gaps.get(a.id, ()))
            for a in base.answers
            if COPY not in a.id and a.id in others
        ),
        max(TIE_GAP, min(base.noise, MOST_NOISE)),
    )


def _reasons(sweep: Sweep) -> str:
    return "; ".join(f"{name}: {why}" for (name, _), why in sweep.failed.items())


def _side(one: Measurement) -> dict[str, Any]:
    seconds = [a.seconds for a in one.answers]
    return {
        "tok_s": round(one.tok_s, 2),
        "tokens": sum(len(a.ids) for a in one.answers),
        "wall_s": round(one.wall_s, 3),
        "mean_request_s": round(sum(seconds) / len(seconds), 4),
    }
