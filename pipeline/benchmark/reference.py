"""Measuring with the reference decoder: small targets, one request at a time, in float32."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from .. import targets
from ..drafter.config import DrafterError
from ..drafter.module import Drafter
from ..extraction.target import load_target, pick_device
from ..worker import Refused, Worker
from .decode import Decoded, Sampler, Stop, plain, speculative
from .figures import (
    Accept,
    Speedup,
    Timed,
    by_dataset,
    paired_speedup,
    rate,
    rounded,
    speeds_by_dataset,
)
from .identity import Identity, Pair, compare
from .outcome import Export, open_export, provenance, simulated_accept, versions, write
from .prompts import Prompt, held_out
from .report import Report, Setting
from .target import CachedTarget
from .verdict import verdict

TIE_GAP = 1e-3
"""Two logits in float32 that are as close as this may change places with the shape of the batch."""
_SMALL_MODEL = 30_000_000
"""Up to so many parameters one thread is the fastest on a CPU."""
_WARM_UP_TOKENS = 16


@dataclass
class Side:
    """What one way of decoding has given, prompt by prompt."""

    answers: list[Decoded] = field(default_factory=list)
    times: list[Timed] = field(default_factory=list)
    accept: dict[str, list[Accept]] = field(default_factory=dict)

    def add(self, prompt: Prompt, answer: Decoded, seconds: float) -> None:
        """Take an answer."""
        self.answers.append(answer)
        self.times.append(Timed(prompt.id, prompt.dataset, len(answer.ids), seconds))
        part = Accept()
        part.add(answer.gained, answer.accepted, answer.proposed)
        self.accept.setdefault(prompt.dataset, []).append(part)

    def total(self) -> Accept:
        """All datasets together."""
        out = Accept()
        for parts in self.accept.values():
            for part in parts:
                out.merge(part)
        return out


def compare_sides(prompts: Sequence[Prompt], base: Side, draft: Side) -> Identity:
    """Whether both sides gave the same tokens, but for ties."""
    found = zip(prompts, base.answers, draft.answers, strict=True)
    return compare(
        (Pair(f"{p.id} of {p.dataset}", one.ids, other.ids, one.gap) for p, one, other in found),
        TIE_GAP,
    )


class Reference:
    """One benchmark by the reference decoder."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._settings = worker.config.bench
        self._export: Export = open_export(worker)
        context = targets.context_length(worker.config, worker.run)
        self._prompts = held_out(
            worker.run, self._settings.prompts, context - self._settings.max_new_tokens
        )
        device = pick_device("auto")
        model = load_target(worker.config, worker.run, device, dtype=torch.float32)
        small = sum(p.numel() for p in model.parameters()) < _SMALL_MODEL
        if device.type == "cpu" and small and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        self._target = CachedTarget(model, self._export.config.layers)
        try:
            self._drafter = Drafter.load(self._export.directory, self._export.target).to(device)
        except DrafterError as error:
            raise Refused(str(error)) from error
        self._stop = Stop(self._export.target.eos_ids(), self._settings.max_new_tokens)
        self._done = 0

    def run(self, inputs: dict[str, str]) -> None:
        """Measure, and write the report."""
        settings, log = self._settings, self._worker.log
        log.note(
            f"{len(self._prompts)} held-out prompts, the target alone and with the drafter, "
            f"{'greedy' if settings.temperature == 0 else f'temperature {settings.temperature}'}, "
            f"in float32 on {self._target.device}"
        )
        if settings.topk != [1] or settings.concurrency != [1] or settings.draft_tokens:
            log.note("topk, draft_tokens and concurrency are for bench.engine sglang", "warning")
        self._warm_up()
        base: Side = Side()
        drafts = {steps: Side() for steps in settings.steps}
        for prompt in self._prompts:
            self._one(prompt, base, None)
            for steps, side in drafts.items():
                self._one(prompt, side, steps)
                self._tell(side)
        self._tell(drafts[settings.steps[0]], force=True)
        self._write(base, drafts, inputs)

    def _warm_up(self) -> None:
        """First calls are slow: allocations, kernels, threads."""
        ids, stop = list(self._prompts[0].ids), Stop(frozenset(), _WARM_UP_TOKENS)
        plain(self._target, ids, stop, Sampler())
        speculative(self._target, self._drafter, ids, self._settings.steps[0], stop, Sampler())

    def _one(self, prompt: Prompt, side: Side, steps: int | None) -> None:
        self._worker.check_stop()
        sampler = Sampler()
        if self._settings.temperature > 0:
            seed = hashlib.sha256(f"{prompt.id}\0{steps}".encode()).digest()[:7]
            generator = torch.Generator().manual_seed(int.from_bytes(seed, "big"))
            sampler = Sampler(self._settings.temperature, generator)
        ids, clock = list(prompt.ids), self._worker.clock
        began = clock.monotonic()
        if steps is None:
            answer = plain(self._target, ids, self._stop, sampler)
        else:
            answer = speculative(self._target, self._drafter, ids, steps, self._stop, sampler)
        side.add(prompt, answer, clock.monotonic() - began)

    def _tell(self, side: Side, *, force: bool = False) -> None:
        done = len(side.answers)
        if done == self._done and not force:
            return
        self._done = done
        log = self._worker.log
        log.emit("progress", done=done, total=len(self._prompts), unit="prompts", detail="")
        values = {"accept": rounded(side.total().length), "tok_s": round(rate(side.times), 1)}
        log.emit("metric", values=values)

    def _write(self, base: Side, drafts: dict[int, Side], inputs: dict[str, str]) -> None:
        gains = {k: paired_speedup(base.times, side.times) for k, side in drafts.items()}
        steps = max(gains, key=lambda k: gains[k].mean)
        side, gain = drafts[steps], gains[steps]
        greedy = self._settings.temperature == 0
        same = [compare_sides(self._prompts, base, d) for d in drafts.values()] if greedy else []
        worst = min(same, key=lambda i: i.equal + i.ties) if same else None
        identical = all(i.holds for i in same) if greedy else None
        total = side.total()
        report = Report(
            engine="reference",
            accept_overall=rounded(total.length),
            accept_by_dataset=by_dataset(side.accept),
            simulated_accept_length=simulated_accept(self._worker.run),
            greedy_identical=identical,
            identity=worst.to_json() if worst else {},
            baseline={"tok_s": round(rate(base.times), 2), "tokens": _tokens(base)},
            drafter={"tok_s": round(rate(side.times), 2), "tokens": _tokens(side)},
            speedup=gain.to_json(),
            settings={
                "steps": steps,
                "topk": 1,
                "draft_tokens": steps + 1,
                "concurrency": 1,
                "temperature": self._settings.temperature,
                "max_new_tokens": self._settings.max_new_tokens,
                "prompts": len(self._prompts),
                "dtype": "float32",
            },
            verdict=verdict(
                gain,
                baseline_tok_s=rate(base.times),
                drafter_tok_s=rate(side.times),
                accept=total.length,
                concurrency=1,
                steps=steps,
                greedy_identical=identical,
            ),
            conditional=total.conditional(steps),
            sweep=[_setting(k, base, d, gains[k]) for k, d in drafts.items()],
            speed_by_dataset=speeds_by_dataset(base.times, side.times),
            provenance=provenance(
                self._worker,
                self._export,
                {"steps": steps, "topk": 1, "draft_tokens": steps + 1},
            ),
        )
        write(self._worker, report, inputs, versions())


def _tokens(side: Side) -> int:
    return sum(t.tokens for t in side.times)


def _setting(steps: int, base: Side, side: Side, gain: Speedup) -> Setting:
    return Setting(
        steps=steps,
        topk=1,
        draft_tokens=steps + 1,
        concurrency=1,
        accept=rounded(side.total().length),
        baseline_tok_s=round(rate(base.times), 2),
        drafter_tok_s=round(rate(side.times), 2),
        speedup=gain.to_json(),
    )
