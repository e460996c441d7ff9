"""The plan document: how the run stands, estimates against actuals, what was changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eagle_tui import fmt
from eagle_tui.protocol import Estimate, Launch, Mark, Status
from eagle_tui.report import status as status_part
from eagle_tui.report.estimates import judged, paused_s
from eagle_tui.report.markdown import plain, table

MOST_MARKS = 200
"""Changes that are listed, the newest ones."""


@dataclass(frozen=True)
class Facts:
    """What the document is made from."""

    status: Status
    estimates: Sequence[Estimate] = ()
    marks: Sequence[Mark] = ()
    launches: Sequence[Launch] = ()


def plan_markdown(facts: Facts) -> str:
    """The document."""
    status = facts.status
    lines = [
        f"# {plain(status.run.name)}: plan and progress",
        "",
        f"As of {fmt.day(status.at)} {fmt.clock(status.at)}. {status_part.headline(status)}",
        "",
        *status_part.alert_lines(status),
        *_section("Datasets", status_part.dataset_lines(status)),
        *_section("Phases", status_part.phase_lines(status, facts.estimates)),
        *_section("Estimates against actuals", _estimates(facts)),
        *_section("Servers", status_part.server_lines(status)),
        *_section("Launches of servers", _launches(facts)),
        *_section("What was changed, and what happened", _marks(facts)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _section(title: str, lines: Iterable[str]) -> list[str]:
    body = list(lines)
    return [f"## {title}", "", *body] if body else []


def _estimates(facts: Facts) -> list[str]:
    rows: list[tuple[object, ...]] = []
    for phase in facts.status.phases:
        rows += [
            (
                phase.name,
                fmt.stamp(one.at, facts.status.at),
                fmt.percent(one.share),
                fmt.eta(one.total_s),
                fmt.duration(one.actual_s),
                one.verdict,
            )
            for one in judged(phase, facts.estimates)
        ]
    heads = ("phase", "estimated at", "-done then", "-foretold in all", "-took", "verdict")
    found = table(heads, rows)
    if not found:
        return []
    status = facts.status
    began = status.run.started or status.at
    paused = paused_s(facts.marks, began, status.at)
    said = [
        "Foretold is the whole time of the phase, an 80 % interval; paused time is in what it took"
        + (f" ({fmt.duration(paused)} of pauses in the run)." if paused else ".")
    ]
    return [*found, "", *said, ""]


def _launches(facts: Facts) -> list[str]:
    now = facts.status.at
    rows = [
        (
            launch.server,
            launch.attempt,
            fmt.stamp(launch.launched_at, now),
            fmt.duration(launch.start_s),
            _settings(launch),
            launch.outcome,
            " ".join(part for part in (launch.effect, launch.reason) if part),
        )
        for launch in facts.launches
    ]
    heads = ("server", "-launch", "at", "-ready after", "settings", "outcome", "effect, reason")
    found = table(heads, rows)
    return [*found, ""] if found else []


def _settings(launch: Launch) -> str:
    return ", ".join(
        f"{key} left out" if value is None else f"{key} {value}"
        for key, value in launch.settings.items()
    )


def _marks(facts: Facts) -> list[str]:
    shown = list(facts.marks)[-MOST_MARKS:]
    rows = [(fmt.stamp(mark.at, facts.status.at), mark.kind, mark.text) for mark in shown]
    found = table(("at", "what", "in words"), rows)
    return [*found, ""] if found else []
