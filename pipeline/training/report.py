"""What the operator sees of a training: progress, figures, notes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from eagle_tui.clock import Clock
from eagle_tui.rundir.events import WorkerLog

from ..drafter.loss import Targets
from .checkpoints import State
from .ranks import Ranks
from .validate import Verdict

_EVERY_S: Final = 1.0


class Meter:
    """Sums between two reports. Device tensors are read only when a report is due."""

    def __init__(self, steps: int, ranks: Ranks, peak: float | None) -> None:
        self._ranks, self._peak, self._steps = ranks, peak, steps
        self._sums = torch.zeros(4 + 2 * steps, dtype=torch.float64, device=ranks.device)
        self._rate = 0.0
        self._began = 0.0
        self._wait = self._paused = self._flops = 0.0
        self._tokens = 0

    def restart(self, now: float) -> None:
        """Begin a new span of time."""
        self._sums.zero_()
        self._began, self._wait, self._paused = now, 0.0, 0.0
        self._tokens, self._flops = 0, 0.0

    def due(self, now: float) -> bool:
        """Time for a report."""
        return now - self._began - self._paused >= _EVERY_S

    def waited(self, seconds: float) -> None:
        """Time in which no batch was there."""
        self._wait += seconds

    def worked(self, tokens: int, flops: float) -> None:
        """Work of one step on this rank."""
        self._tokens += tokens
        self._flops += flops

    @contextmanager
    def pause(self, clock: Clock) -> Iterator[None]:
        """Time that is not training."""
        before = clock.monotonic()
        try:
            yield
        finally:
            self._paused += clock.monotonic() - before

    def add(
        self,
        loss: Tensor,
        hits: Tensor,
        targets: Targets,
        norm: Tensor,
        rate: float,
    ) -> None:
        """Figures of one step, left on the device."""
        self._rate = rate
        bad = ~(torch.isfinite(norm) & torch.isfinite(loss))
        one = torch.ones((), device=self._sums.device)
        self._sums += torch.cat(
            (
                torch.stack((loss.detach(), norm, bad.float(), one)),
                hits.sum(1).float(),
                targets.valid.sum(1).float(),
            )
        )

    def values(self, now: float) -> dict[str, float | None] | None:
        """Means since the last report, over all ranks, and a new span; None when nothing was done.
        Every rank must call it. `bad` counts steps whose gradient was not finite."""
        sums = self._ranks.sum(self._sums.clone()).tolist()
        work = torch.tensor([float(self._tokens), self._flops], dtype=torch.float64)
        tokens, flops = self._ranks.sum(work).tolist()
        loss, norm, bad, count = sums[:4]
        elapsed = max(1e-9, now - self._began - self._paused)
        wait = self._wait
        self.restart(now)
        if not count:
            return None
        k = self._steps
        hits, valid = sums[4 : 4 + k], sums[4 + k : 4 + 2 * k]
        peak = self._peak
        return {
            "loss": loss / count,
            "lr": self._rate,
            **{
                f"acc_{j}": h / v if v else None
                for j, (h, v) in enumerate(zip(hits, valid, strict=True))
            },
            "tok_s": tokens / elapsed,
            "data_wait": min(1.0, wait / elapsed),
            "mfu": flops / elapsed / (peak * self._ranks.world) if peak else None,
            "grad_norm": norm / count,
            "bad": bad,
        }


class Reporter:
    """Writes events; silent without a log (every rank but the first)."""

    def __init__(self, log: WorkerLog | None, epochs: int) -> None:
        self._log = log
        self._epochs = epochs
        self._accept: float | None = None
        self._last: dict[str, Any] = {}
        self._told_at = -math.inf

    def note(self, text: str, *, warning: bool = False) -> None:
        """Say something to the operator."""
        if self._log:
            self._log.note(text, "warning" if warning else "info")

    def begin(self, state: State, total: int) -> None:
        """The loop begins, or goes on."""
        self._accept = (state.validated or {}).get("accept")
        if state.step:
            self.note(f"goes on at step {state.step:,} of {total:,} (epoch {state.epoch + 1})")
        self._progress(state, total)

    def metric(self, state: State, total: int, values: dict[str, float | None]) -> None:
        """Figures of the last second."""
        self._progress(state, total)
        if self._log:
            told = {**values, "accept": self._accept}
            self._log.emit("metric", values={k: _rounded(v) for k, v in told.items()})

    def extracting(self, done: int, total: int, now: float) -> None:
        """A window is being extracted; told once a second."""
        if self._log is None or now - self._told_at < _EVERY_S:
            return
        self._told_at = now
        detail = f"extracts the next rows: batch {done:,} of {total:,}"
        self._log.emit("progress", **{**self._last, "detail": detail})

    def verdict(self, state: State, verdict: Verdict, *, better: bool) -> None:
        """A validation."""
        self._accept = verdict.overall.accept
        best = "the best so far" if better else f"best {state.accept or 0:.2f}"
        self.note(f"step {state.step:,}: {verdict.sentence()}; {best}")

    def saved(self, state: State, path: Path, *, best: bool) -> None:
        """A checkpoint is on disk."""
        what = "best checkpoint" if best else "checkpoint"
        self.note(f"{what} at step {state.step:,} ({path.name})")
        if self._log:
            self._log.sync()

    def _progress(self, state: State, total: int) -> None:
        if self._log:
            epoch = min(state.epoch + 1, self._epochs)
            detail = f"epoch {epoch} of {self._epochs}"
            self._last = {"done": state.step, "total": total, "unit": "steps", "detail": detail}
            self._log.emit("progress", **self._last)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
