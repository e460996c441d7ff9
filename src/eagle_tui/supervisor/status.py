"""The status snapshot: what every screen, command and script is shown."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

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
from eagle_tui.reader import result
from eagle_tui.rundir.desired import Desired, Limits, TotalCaps, limits, ordered, total_caps
from eagle_tui.supervisor import recall
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.dataset_figures import SHARES, Bucket, DatasetFigures
from eagle_tui.supervisor.figures import RATE_SPAN_S, Figures
from eagle_tui.supervisor.remaining import not_begun, run_left
from eagle_tui.supervisor.work import plan, reached, room_of, work_of
from eagle_tui.troubles import Trouble

RECENT_COMMANDS = 20
MOVING = ("running", "stalled", "draining")
"""States of generate in which a time left means something."""


@dataclass(frozen=True)
class GenerateView:
    """What is said about generation as a whole."""

    datasets: tuple[DatasetStatus, ...]
    together: DatasetStatus | None
    done: int
    total: int
    rows: float | None
    """Rows there will be when generation is done; None while prompts are not counted."""
    eta_s: eta.Range | None


def _state(
    section: DatasetSection,
    figures: DatasetFigures,
    lim: Limits,
    phase: PhaseState,
    *,
    no_more: bool,
) -> DatasetState:
    """`no_more`: a cap over all datasets is reached."""
    if section.kind == "native":
        return "done" if figures.prompts else "pending"
    if lim.skip:
        return "skipped"
    if figures.prompts and figures.done >= figures.prompts:
        return "done"
    if figures.in_flight:
        return "running"
    if figures.prompts and (no_more or work_of(figures, lim).prompts_left == 0):
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
    # Tokens as they are made, or, of a worker that does not tell, those of whole answers.
    rates = figures.produced if figures.produced.rate(least_s=10.0) else figures.total.token_rate
    rate, spread = rates.rate(600.0, least_s=10.0) or server_tok_s, rates.spread()
    sections = ordered(config, desired)
    prompts = [s for s in sections if s.kind == "prompts"]
    shares = plan(config, desired, figures.datasets)
    caps = total_caps(config, desired)
    no_more = reached(room_of((figures.dataset(s.name) for s in prompts), caps))
    known = True
    overall: eta.Range | None = None
    rows: list[DatasetStatus] = []
    for section in sections:
        data, lim = figures.dataset(section.name), limits(config, desired, section)
        state = _state(section, data, lim, phase, no_more=no_more)
        estimate = None
        if section.kind == "prompts":
            known = known and data.prompts > 0
            if known:
                estimate = eta.seconds_left(shares[section.name].until, rate, spread)
            overall = estimate
            if state in ("done", "skipped", "capped") or phase not in MOVING:
                estimate = None
        rows.append(_row(section, data, lim, state, estimate, wall))
    done = sum(figures.dataset(s.name).done for s in prompts)
    total = done + math.ceil(sum(share.prompts for share in shares.values()))
    together = None
    if prompts:
        estimate = overall if phase in MOVING else None
        together = _together(rows, figures, caps, phase, estimate, wall, no_more=no_more)
    if config.target.reasoning == "none":
        # Of a model that does not reason no share is worth telling.
        rows = [row.model_copy(update={"reasoning_share": None}) for row in rows]
        together = together and together.model_copy(update={"reasoning_share": None})
    native = sum(row.prompts or 0 for row in rows if row.kind == "native")
    counted = all(row.prompts for row in rows)
    expected = float(native + total) if counted else None
    return GenerateView(tuple(rows), together, done, total, expected, overall)


def _together(
    rows: list[DatasetStatus],
    figures: Figures,
    caps: TotalCaps,
    phase: PhaseState,
    estimate: eta.Range | None,
    wall: float,
    *,
    no_more: bool,
) -> DatasetStatus:
    """All datasets of prompts as if they were one."""
    mine = [row for row in rows if row.kind == "prompts"]
    in_flight = sum(row.in_flight for row in mine)
    # Counted in the original, from which the copy takes it over: else it was counted every second.
    figures.total.summary(exact=not in_flight)
    _last_hour(figures.total, wall)
    data = replace(
        figures.total, prompts=sum(row.prompts or 0 for row in mine), in_flight=in_flight
    )
    states = {row.state for row in mine}
    settled = states <= {"done", "capped", "skipped"}
    state: DatasetState
    if data.in_flight:
        state = "running"
    elif data.prompts and (no_more or (settled and "capped" in states)):
        state = "capped"
    elif data.prompts and settled:
        state = "done"
    else:
        state = "paused" if phase == "paused" else "pending"
    return _figures_row("total", "prompts", data, state, estimate, wall).model_copy(
        update={"cap_tokens": caps.tokens, "cap_samples": caps.samples}
    )


def _row(
    section: DatasetSection,
    data: DatasetFigures,
    lim: Limits,
    state: DatasetState,
    estimate: eta.Range | None,
    wall: float,
) -> DatasetStatus:
    row = _figures_row(section.name, section.kind, data, state, estimate, wall)
    if section.kind == "native":
        return row
    limited = {
        "concurrency": lim.concurrency,
        "cap_tokens": lim.cap_tokens,
        "cap_samples": lim.cap_samples,
    }
    return row.model_copy(update=limited)


def _figures_row(
    name: str,
    kind: Literal["prompts", "native"],
    data: DatasetFigures,
    state: DatasetState,
    estimate: eta.Range | None,
    wall: float,
) -> DatasetStatus:
    """What is measured of a dataset, or of all of them; without its limits."""
    mean, found, bars = data.summary(exact=state != "running")
    p50, p90, p95, p99 = found if found else (None, None, None, None)
    finished = data.stored
    hour = _last_hour(data, wall)
    per_s = data.results.rate(RATE_SPAN_S) if state == "running" else None
    tok_s = data.token_rate.rate(RATE_SPAN_S) if state == "running" else None
    known = ("complete", "truncated", "no_answer", "loop")
    return DatasetStatus(
        name=name,
        kind=kind,
        state=state,
        prompts=data.prompts or None,
        # What came with its responses is complete as soon as it is prepared.
        complete=data.prompts if kind == "native" else data.states["complete"],
        truncated=data.states["truncated"],
        no_answer=data.states["no_answer"],
        loop=data.states["loop"],
        failed=sum(n for name, n in data.states.items() if name not in known),
        failures={name: n for name, n in data.states.items() if n and name not in known},
        histogram=bars,
        in_flight=data.in_flight,
        tokens=data.tokens,
        rate_per_min=None if per_s is None else per_s * 60,
        tok_s=tok_s,
        tokens_mean=mean,
        tokens_p50=p50,
        tokens_p90=p90,
        tokens_p95=p95,
        tokens_p99=p99,
        reasoning_share=data.reasoned / finished if finished else None,
        reasoning_mean=data.reasoning_tokens / data.reasoned if data.reasoned else None,
        hour=hour,
        eta_s=estimate,
    )


def _last_hour(data: DatasetFigures, wall: float) -> LengthFigures | None:
    """Lengths of the last hour, counted anew when there are others."""
    version = data.hour.version(wall)
    if data.told_hour is None or data.told_hour[0] != version:
        data.told_hour = version, _length_figures(data.hour.total(wall))
    return data.told_hour[1]


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


def _over_at(phases: Sequence[PhaseStatus], now: float) -> float:
    """Unix time at which the last of the phases was done; while one is not, now."""
    if not phases or any(phase.state != "done" for phase in phases):
        return now
    ends = [phase.last_exit.at for phase in phases if phase.last_exit is not None]
    return min(max(ends, default=now), now)


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
        self.trouble: Trouble | None = None
        """What keeps the supervisor itself from its work; None when nothing does."""

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
        phases = tuple(self._phase(phase, view) for phase in PHASES)
        wanted = [p for p in phases if p.name in board.config.run.phases]
        left, without = run_left(wanted)
        until = _over_at(wanted, board.uptime.now())
        status = Status(
            at=wall,
            seq=board.desired.seq,
            run=RunStatus(
                name=board.config.run.name,
                dir=str(board.run.root),
                target=board.config.target.model,
                started=board.uptime.started,
                elapsed_s=board.uptime.elapsed_s(until),
                down_s=board.uptime.down_s(until),
                eta_s=left,
                eta_without=without,
            ),
            supervisor=SupervisorStatus(pid=os.getpid(), version=__version__),
            phases=phases,
            datasets=view.datasets,
            total=view.together,
            servers=tuple(
                _with_client(board.server_status(s), board.figures) for s in board.servers
            ),
            gpus=gpus,
            host=host,
            commands=tuple(board.store.recent_commands(RECENT_COMMANDS)),
            result=self._result(),
        )
        reasoning = board.config.target.reasoning != "none"
        found = rules.alerts(status, self._alerts_since, reasoning, self.trouble)
        return status.model_copy(update={"alerts": found})

    def _result(self) -> str:
        """What the benchmark found, once it is done, by its manifest."""
        if self._b.decisions["bench"].state != "done":
            return ""
        made, _ = self._b.manifest("bench")
        return result.of_counts(made.counts).brief if made is not None else ""

    def _generate_figures(self) -> dict[str, float | None]:
        """What generation measures of itself, over all datasets."""
        figures = self._b.figures
        worker = self._b.worker("generate")
        per_s = figures.total.results.rate(RATE_SPAN_S)
        return {
            "per_min": None if per_s is None else per_s * 60,
            "tok_s": figures.total.token_rate.rate(RATE_SPAN_S),
            "oldest_s": worker.flow.oldest_s if worker and not worker.outcome else None,
        }

    def _not_begun(self, phase: str, view: GenerateView) -> eta.Range | None:
        """The time that a phase takes which is waiting for others."""
        if self._b.decisions[phase].state != "pending" or self._b.slots[phase].alive:
            return None
        rows = view.rows if "generate" in self._b.config.run.phases else None
        return not_begun(phase, self._b.figures.pace(phase), rows)

    def _phase(self, phase: str, view: GenerateView) -> PhaseStatus:
        board = self._b
        decision, slot, worker = board.decisions[phase], board.slots[phase], board.worker(phase)
        status = PhaseStatus(
            name=phase,
            state=decision.state,
            reason=decision.reason,
            attempt=slot.number,
            elapsed_s=slot.elapsed_s(),
            eta_s=self._not_begun(phase, view),
            last_exit=slot.last_exit,
        )
        if worker is None:
            made, _ = board.manifest(phase)
            if made is None:
                return status
            if phase != "generate":
                told = recall.done(phase, made.counts)
                done, unit = told or (None, "")
                return status.model_copy(update={"done": done, "total": done, "unit": unit})
        if phase == "generate":
            return status.model_copy(
                update={
                    "done": view.done,
                    "total": view.total,
                    "unit": "responses",
                    "eta_s": view.eta_s if decision.state in MOVING else None,
                    "figures": self._generate_figures(),
                }
            )
        assert worker is not None
        left = status.eta_s
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
