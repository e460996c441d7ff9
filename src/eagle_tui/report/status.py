"""The status as a Markdown table, as one would type it into a message. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from eagle_tui import fmt
from eagle_tui.protocol import DatasetStatus, Estimate, Status
from eagle_tui.report.estimates import first_against_now
from eagle_tui.report.markdown import plain, table

_DATASET_HEADS = (
    "dataset", "state", "-done", "-%", "-tokens", "-cap", "-mean", "-median", "-P95", "-cut",
    "-failed", "-per min", "-left",
)  # fmt: skip
_PHASE_HEADS = ("phase", "state", "-done", "-ran for", "-left", "estimate", "why")


def status_markdown(status: Status, estimates: Iterable[Estimate] = ()) -> str:
    """Headline, what is wrong, datasets, phases with durations and estimates, servers."""
    lines = [f"## {plain(status.run.name)}, {fmt.day(status.at)} {fmt.clock(status.at)}", ""]
    lines += [headline(status), ""]
    lines += [*alert_lines(status), *dataset_lines(status), *phase_lines(status, estimates)]
    lines += server_lines(status)
    return "\n".join(lines).rstrip() + "\n"


def headline(status: Status) -> str:
    """Target, elapsed, left, supervisor, as a sentence."""
    run = status.run
    left = fmt.eta_finish(run.eta_s, status.at)
    beside = fmt.beside(run.eta_without) if run.eta_s else ""
    return (
        f"Target {plain(run.target)}; elapsed {fmt.elapsed(run.elapsed_s, run.down_s)}; "
        f"left {left}{plain(beside)}; supervisor {plain(status.supervisor.state)}."
    )


def alert_lines(status: Status) -> list[str]:
    """What is wrong now, worst first."""
    found = []
    for alert in status.alerts:
        remedy = f" ({plain(alert.remedy)})" if alert.remedy else ""
        found.append(f"- **{alert.severity}**: {plain(alert.sentence)}{remedy}")
    return [*found, ""] if found else []


def dataset_lines(status: Status) -> list[str]:
    """One row per dataset, and all together."""
    together = [status.total] if status.total else []
    rows = [_dataset(row) for row in (*status.datasets, *together)]
    found = table(_DATASET_HEADS, rows)
    return [*found, ""] if found else []


def _dataset(row: DatasetStatus) -> tuple[object, ...]:
    cap = fmt.caps(row.cap_tokens, row.cap_samples)
    return (
        *(row.name, row.state, fmt.progress(row.done, row.prompts)),
        *(fmt.percent(fmt.share(row.done, row.prompts)), fmt.count(row.tokens), cap),
        *(fmt.count(row.tokens_mean), fmt.count(row.tokens_p50), fmt.count(row.tokens_p95)),
        *(row.truncated, row.failed + row.no_answer + row.loop),
        *(fmt.rate(row.rate_per_min), fmt.eta(row.eta_s)),
    )


def phase_lines(status: Status, estimates: Iterable[Estimate]) -> list[str]:
    """One row per phase with its duration and what was first estimated of it."""
    kept = list(estimates)
    found = table(
        _PHASE_HEADS,
        [
            (
                *(p.name, p.state, f"{fmt.progress(p.done, p.total)} {p.unit}".strip()),
                *(fmt.duration(p.elapsed_s), fmt.eta(p.eta_s)),
                *(first_against_now(p, kept), p.reason),
            )
            for p in status.phases
        ],
    )
    return [*found, ""] if found else []


def server_lines(status: Status) -> list[str]:
    """One row per server."""
    heads = ("server", "state", "-tok/s", "-running", "-queued", "-KV", "-accept", "why")
    found = table(
        heads,
        [
            (
                *(s.name, s.state, fmt.rate(s.tok_s), fmt.exact(s.running), fmt.exact(s.queued)),
                *(fmt.percent(s.kv_usage), fmt.decimal(s.accept_length), s.reason),
            )
            for s in status.servers
        ],
    )
    return [*found, ""] if found else []
