"""The status snapshot: what every screen, command and script is shown."""

from __future__ import annotations

import os
from dataclasses import dataclass

from eagle_tui import __version__, eta, lengths, rules
from eagle_tui.config import PHASES
from eagle_tui.config.model import DatasetSection, RunConfig
from eagle_tui.protocol import (
    DatasetState,
    DatasetStatus,
    EndpointFigures,
    GpuStatus,
    HostStatus,
    LengthFigures,
    PhaseState,
    PhaseStatus,
    RunStatus,
    ServerStatus,
    Status,
    SupervisorStatus,
)
from eagle_tui.rundir.desired import Desired, Limits, limits, ordered
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.figures import RATE_SPAN_S, Bucket, DatasetFigures, Figures
from eagle_tui.supervisor.work import work_of

SHARES = (0.5, 0.9, 0.95, 0.99)
RECENT_COMMANDS = 20
MOVING = ("running", "stalled", "draining")
"""States of generate in which a time left means something."""


@dataclass(frozen=True)
class GenerateView:
    """What is said about generation as a whole."""

    datasets: tuple[DatasetStatus, ...]
    done: int
    total: int
    eta_s: eta.Range | None


def _state(
    section: DatasetSection, figures: DatasetFigures, lim: Limits, phase: PhaseState
) -> DatasetState:
    if section.kind == "native":
        return "done" if figures.prompts else "pending"
    if lim.skip:
        return "skipped"
    if figures.prompts and figures.done >= figures.prompts:
        return "done"
    if figures.in_flight:
        return "running"
    if work_of(figures, lim).prompts_left == 0 and figures.prompts:
        return "capped"
    return "paused" if phase == "paused" else "pending"


def generate_view(
    config: RunConfig,
    desired: Desired,
    figures: Figures,
    phase: PhaseState,
    server_tok_s: float | None,
    wall: float,
) -> GenerateView:
    """Datasets in the order in which they are taken, with rates and estimates. While the prompts of
    a dataset are not counted yet, nothing is said of the time that it and those after it take."""
    rate = figures.total_tokens.rate(600.0, least_s=10.0) or server_tok_s
    spread = figures.total_tokens.spread()
    rows: list[DatasetStatus] = []
    sections = ordered(config, desired)
    prompts = [s for s in sections if s.kind == "prompts"]
    bounds = {s.name: limits(config, desired, s) for s in sections}
    works = {s.name: work_of(figures.dataset(s.name), bounds[s.name]) for s in prompts}
    left = dict(zip(works, eta.tokens_left_until(list(works.values())), strict=True))
    done = sum(figures.dataset(s.name).done for s in prompts)
    total = done + sum(work.prompts_left for work in works.values())
    known = True
    overall: eta.Range | None = None
    for section in sections:
        data, lim = figures.dataset(section.name), bounds[section.name]
        state = _state(section, data, lim, phase)
        estimate = None
        if section.kind == "prompts":
            known = known and data.prompts > 0
            if known:
                estimate = eta.seconds_left(left[section.name], rate, spread)
            overall = estimate
            if state in ("done", "skipped", "capped") or phase not in MOVING:
                estimate = None
        rows.append(_row(section, data, lim, state, estimate, wall))
    return GenerateView(tuple(rows), done, total, overall)


def _row(
    section: DatasetSection,
    data: DatasetFigures,
    lim: Limits,
    state: DatasetState,
    estimate: eta.Range | None,
    wall: float,
) -> DatasetStatus:
    found = lengths.quantiles(data.lengths, SHARES)
    p50, p90, p95, p99 = found if found else (None, None, None, None)
    finished = sum(data.lengths.values())
    hour = _length_figures(data.hour.total(wall))
    per_s = data.results.rate(RATE_SPAN_S) if state == "running" else None
    tok_s = data.token_rate.rate(RATE_SPAN_S) if state == "running" else None
    known = ("complete", "truncated", "no_answer", "loop")
    return DatasetStatus(
        name=section.name,
        kind=section.kind,
        state=state,
        prompts=data.prompts or None,
        # What came with its responses is complete as soon as it is prepared.
        complete=data.prompts if section.kind == "native" else data.states["complete"],
        truncated=data.states["truncated"],
        no_answer=data.states["no_answer"],
        loop=data.states["loop"],
        failed=sum(n for name, n in data.states.items() if name not in known),
        in_flight=data.in_flight,
        concurrency=lim.concurrency if section.kind == "prompts" else None,
        tokens=data.tokens,
        cap_tokens=lim.cap_tokens if section.kind == "prompts" else None,
        cap_samples=lim.cap_samples if section.kind == "prompts" else None,
        rate_per_min=None if per_s is None else per_s * 60,
        tok_s=tok_s,
        tokens_mean=lengths.mean(data.lengths),
        tokens_p50=p50,
        tokens_p90=p90,
        tokens_p95=p95,
        tokens_p99=p99,
        reasoning_share=data.reasoned / finished if finished else None,
        reasoning_mean=data.reasoning_tokens / data.reasoned if data.reasoned else None,
        hour=hour,
        eta_s=estimate,
    )


def _length_figures(bucket: Bucket) -> LengthFigures | None:
    found, mean = lengths.quantiles(bucket.lengths, SHARES), lengths.mean(bucket.lengths)
    if found is None or mean is None:
        return None
    responses = sum(bucket.lengths.values())
    return LengthFigures(
        responses=responses,
        tokens_mean=mean,
        tokens_p50=found[0],
        tokens_p90=found[1],
        tokens_p95=found[2],
        tokens_p99=found[3],
        reasoning_share=bucket.reasoned / responses,
        reasoning_mean=bucket.reasoning_tokens / bucket.reasoned if bucket.reasoned else None,
    )


def _with_client(server: ServerStatus, figures: Figures) -> ServerStatus:
    """A server with what the generate worker measures of it."""
    seen = figures.endpoints.get(server.name)
    if seen is None:
        return server
    per_s = seen.answers.rate(RATE_SPAN_S)
    client = EndpointFigures(
        in_flight=seen.in_flight,
        limit=seen.limit,
        tok_s=seen.tokens.rate(RATE_SPAN_S),
        per_min=None if per_s is None else per_s * 60,
        failures=seen.failures,
    )
    return server.model_copy(update={"client": client})


class StatusMaker:
    """Makes snapshots of the board, and remembers since when each alert stands."""

    def __init__(self, board: Board) -> None:
        self._b = board
        self._alerts_since: dict[str, float] = {}
        self.trouble = ""
        """What keeps the supervisor itself from its work; empty when nothing does."""

    def make(self, host: HostStatus, gpus: tuple[GpuStatus, ...]) -> Status:
        """The status now."""
        board = self._b
        wall = board.clock.wall()
        view = generate_view(
            board.config,
            board.desired,
            board.figures,
            board.decisions["generate"].state,
            board.server_tok_s(),
            wall,
        )
        started = board.store.get("started")
        status = Status(
            at=wall,
            seq=board.desired.seq,
            run=RunStatus(
                name=board.config.run.name,
                dir=str(board.run.root),
                target=board.config.target.model,
                started=started,
                elapsed_s=max(0.0, wall - started) if started else None,
                eta_s=self._run_eta(view),
            ),
            supervisor=SupervisorStatus(pid=os.getpid(), version=__version__),
            phases=tuple(self._phase(phase, view) for phase in PHASES),
            datasets=view.datasets,
            servers=tuple(_with_client(s.status(), board.figures) for s in board.servers),
            gpus=gpus,
            host=host,
            commands=tuple(board.store.recent_commands(RECENT_COMMANDS)),
        )
        reasoning = board.config.target.reasoning != "none"
        found = rules.alerts(status, self._alerts_since, reasoning, self.trouble)
        return status.model_copy(update={"alerts": found})

    def _generate_figures(self) -> dict[str, float | None]:
        """What generation measures of itself, over all datasets."""
        figures = self._b.figures
        worker = self._b.worker("generate")
        per_s = figures.total_results.rate(RATE_SPAN_S)
        return {
            "per_min": None if per_s is None else per_s * 60,
            "tok_s": figures.total_tokens.rate(RATE_SPAN_S),
            "oldest_s": worker.flow.oldest_s if worker and not worker.outcome else None,
        }

    def _run_eta(self, view: GenerateView) -> eta.Range | None:
        state = self._b.decisions["generate"].state
        return view.eta_s if state in MOVING else None

    def _phase(self, phase: str, view: GenerateView) -> PhaseStatus:
        board = self._b
        decision, slot, worker = board.decisions[phase], board.slots[phase], board.worker(phase)
        status = PhaseStatus(
            name=phase,
            state=decision.state,
            reason=decision.reason,
            attempt=slot.number,
            elapsed_s=slot.elapsed_s(),
        )
        if worker is None:
            return status
        if phase == "generate":
            return status.model_copy(
                update={
                    "done": view.done,
                    "total": view.total,
                    "unit": "responses",
                    "eta_s": self._run_eta(view),
                    "figures": self._generate_figures(),
                }
            )
        left: eta.Range | None = None
        if slot.alive and worker.done is not None and worker.total is not None:
            left = eta.progress_left(worker.done, worker.total, worker.pace.rate())
        return status.model_copy(
            update={
                "done": worker.done,
                "total": worker.total,
                "unit": worker.unit,
                "eta_s": left,
                "figures": dict(worker.metrics),
            }
        )
