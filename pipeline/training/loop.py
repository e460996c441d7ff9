"""The training loop of one rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from eagle_tui.clock import Clock
from eagle_tui.config.drafter import TrainSection

from ..drafter.loss import TargetHead, make_targets
from ..drafter.module import Drafter
from ..worker import Failed, Stopped
from .checkpoints import Checkpoints, State
from .data import Ahead, Batch, Table
from .feed import EndEarly, Feed
from .flops import peak_flops, step_flops
from .optimizers import Optimizers, module_state
from .plan import Place, Plan, rate_factor
from .ranks import Ranks
from .report import Meter, Reporter
from .validate import Verdict, validate

_GPU_THREADS: Final = 4
"""Threads that make batches: a GPU eats more than one can copy."""
BY_OPERATOR: Final = "ended by the operator"
_BETTER: Final = 1e-4
"""A validation must be better by more than this to count."""


@dataclass(frozen=True)
class Setting:
    """What the loop works with."""

    settings: TrainSection
    ranks: Ranks
    clock: Clock
    drafter: Drafter
    model: nn.Module
    """Wrapped for the ranks; called as `TrainingModel`."""
    optimizers: Optimizers
    head: TargetHead
    train: Table
    val: Table
    checkpoints: Checkpoints
    walk_steps: int
    """Draft steps of the simulated accept length."""


@dataclass(frozen=True)
class Ending:
    """How the loop ended."""

    state: State
    total: int
    why: str
    """Empty when all steps were done or early stopping ended it; else who ended it."""
    stopped: bool = False
    """Asked to stop: to be resumed."""


class Loop:
    """Trains from a state to the end, or until it is asked to stop."""

    def __init__(
        self,
        setting: Setting,
        state: State,
        report: Reporter,
        stop: threading.Event,
        finish: Callable[[], bool],
        feed: Feed,
    ) -> None:
        """`stop`: leave a checkpoint and come back; `finish`: end with what is there. Both are
        looked at before every step; what one rank sees, all do."""
        self._s = setting
        self._state = state
        self._report = report
        self._stop, self._finish, self._feed = stop, finish, feed
        s = setting.settings
        self._plan = Plan(setting.train.lengths, s.batch_tokens, s.epochs, s.seed)
        self._total = self._plan.total_steps(state.place, setting.ranks.world, s.max_steps)
        self._decay = s.step_decay ** torch.arange(s.ttt_steps, device=setting.ranks.device)
        self._meter = Meter(s.ttt_steps, setting.ranks, peak_flops(setting.ranks.device))
        self._saved_at = setting.clock.monotonic()
        self._judged = bool(state.validated and state.validated["step"] == state.step)

    def run(self) -> Ending:
        """Train. Failed when the loss is no longer finite, or as the feed fails."""
        self._report.begin(self._state, self._total)
        ending: Ending | None = None
        while ending is None:
            if self._state.step >= self._total:
                ending = self._end("")
            elif self._given_up():  # before a kill, that is
                ending = self._end(self._no_better())
            else:
                ending = self._span()
        if not ending.stopped:
            self._feed.end()
        return ending

    def _span(self) -> Ending | None:
        """Train on what the feed has for us."""
        try:
            place, left = self._state.place, self._total - self._state.step
            end = self._feed.begin(self._plan, place, left)
        except Stopped:
            return self._leave()
        except EndEarly:
            return self._end(BY_OPERATOR)
        ending = self._steps(place.epoch, end)
        if ending is None and end is not None:
            self._save()
            self._feed.end()
        return ending

    def _leave(self) -> Ending:
        """Stop as asked, with a checkpoint of all that was done."""
        self._save()
        return Ending(self._state, self._total, "", stopped=True)

    def _steps(self, epoch: int, end: int | None) -> Ending | None:
        """Steps up to pack `end` of the epoch, or to the end of all."""
        s, ranks = self._s.settings, self._s.ranks
        packs, pin = self._packs(epoch, end), ranks.device.type == "cuda"
        threads = _GPU_THREADS if pin and self._s.train.source.parallel else 1
        with Ahead(self._s.train, packs, pin=pin, threads=threads) as ahead:
            self._meter.restart(self._s.clock.monotonic())
            while self._state.step < self._total and within(self._state.place, epoch, end):
                stop, finish, save, tell = ranks.any(self._flags())
                if tell:
                    self._tell()
                if stop:
                    return self._leave()
                if finish:
                    return self._end(BY_OPERATOR)
                if save:
                    self._save()
                self._step(self._next(ahead))
                if self._state.step % s.validate_steps == 0:
                    self._validate()
                    if self._given_up():
                        return self._end(self._no_better())
        return None

    def _given_up(self) -> bool:
        """It is time to stop early."""
        patience = self._s.settings.patience
        return patience is not None and self._state.validations >= patience

    def _no_better(self) -> str:
        return f"no better after {self._s.settings.patience} validations"

    def _end(self, why: str) -> Ending:
        """End for good: what is there is judged and kept."""
        self._tell()
        if not self._judged:
            self._validate()
        self._save()
        return Ending(self._state, self._total, why)

    def _packs(self, epoch: int, end: int | None) -> Iterator[list[int]]:
        """Rows of this rank's packs, from here to pack `end` of the epoch, or that of the last
        epoch."""
        world, rank, place = self._s.ranks.world, self._s.ranks.rank, self._state.place
        while place.epoch < self._plan.epochs and within(place, epoch, end):
            yield self._plan.rows(place.epoch, place.packs + rank)
            place = self._plan.after(place, world)

    def _flags(self) -> list[bool]:
        now = self._s.clock.monotonic()
        due = self._s.ranks.first and now - self._saved_at >= self._s.settings.checkpoint_s
        tell = self._s.ranks.first and self._meter.due(now)
        return [self._stop.is_set(), self._finish(), due, tell]

    def _next(self, ahead: Ahead) -> Batch:
        before = self._s.clock.monotonic()
        batch = ahead.take()
        assert batch is not None  # there are as many packs as steps
        self._meter.waited(self._s.clock.monotonic() - before)
        return batch

    def _step(self, batch: Batch) -> None:
        s, ranks = self._s.settings, self._s.ranks
        rate = s.learning_rate * rate_factor(self._state.step, self._total, s.warmup_fraction)
        self._s.optimizers.set_rate(rate)
        there = batch.to(ranks.device)
        targets = make_targets(self._s.head, there.last, there.anchors, there.depths, s.ttt_steps)
        counts = ranks.sum(targets.learn.sum(1).float())
        # The wrapper takes the mean of gradients over ranks; the loss is a mean over all rows.
        share = self._decay * ranks.world / counts.clamp(min=1)
        loss, hits, _ = self._s.model(there.rows, targets, targets.learn * share[:, None])
        loss.backward()
        norm = clip(self._s.drafter, s.clip)
        self._s.optimizers.step()
        self._meter.add(loss, hits, targets, norm, rate)
        self._meter.worked(
            batch.tokens,
            step_flops(
                self._s.drafter.config,
                batch.rows.docs,
                len(batch.depths),
                s.ttt_steps,
                len(self._s.head.head) + len(self._s.head.known),
            ),
        )
        self._judged = False
        place = self._plan.after(self._state.place, ranks.world)
        done = torch.tensor([batch.tokens, batch.learned])
        tokens, rows = (int(n) for n in ranks.sum(done))
        self._state = self._state.model_copy(
            update={
                **{"epoch": place.epoch, "packs": place.packs, "step": place.step},
                **{"tokens": self._state.tokens + tokens, "rows": self._state.rows + rows},
            }
        )

    def _tell(self) -> None:
        values = self._meter.values(self._s.clock.monotonic())
        if values is None:
            return
        if values.pop("bad", 0):
            raise Failed(
                f"The gradient was not finite near step {self._state.step}. The last checkpoint is "
                "kept; lower train.learning_rate or train.clip, or look for a broken row, and run "
                "the phase again."
            )
        self._report.metric(self._state, self._total, values)

    def _validate(self) -> None:
        """Judge the held-out rows."""
        if not len(self._s.val):
            return
        s = self._s.settings
        with self._meter.pause(self._s.clock):
            self._s.model.eval()
            verdict = validate(
                self._s.model,
                self._s.head,
                self._s.val,
                self._s.ranks,
                steps=s.ttt_steps,
                walk_steps=self._s.walk_steps,
                batch_tokens=s.batch_tokens,
            )
            self._s.model.train()
        better = self._judge(verdict)
        self._report.verdict(self._state, verdict, better=better)
        if better:
            self._save(best=True)

    def _judge(self, verdict: Verdict) -> bool:
        accept, before = verdict.overall.accept, self._state.accept
        better = accept is not None and (before is None or accept > before + _BETTER)
        self._judged = True
        self._state = self._state.model_copy(
            update={
                "accept": accept if better else before,
                "validations": 0 if better else self._state.validations + 1,
                "validated": {"step": self._state.step, **verdict.to_json()},
            }
        )
        return better

    def _save(self, *, best: bool = False) -> None:
        self._tell()
        with self._meter.pause(self._s.clock):
            model = module_state(self._s.drafter)
            optimizer = self._s.optimizers.state()
            if self._s.ranks.first:
                path = self._s.checkpoints.save(self._state, model, optimizer, best=best)
                self._report.saved(self._state, path, best=best)
            self._s.ranks.barrier()
        self._saved_at = self._s.clock.monotonic()


def within(place: Place, epoch: int, end: int | None) -> bool:
    """Before pack `end` of the epoch; always, when there is no such end."""
    return end is None or (place.epoch, place.packs) < (epoch, end)


def clip(drafter: Drafter, limit: float) -> Tensor:
    """Scale the gradients to a norm of at most `limit`; gives the norm before, a scalar on the
    device."""
    norm: Any = nn.utils.clip_grad_norm_(drafter.parameters(), limit)
    whole: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    return whole.detach()
