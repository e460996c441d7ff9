"""Markdown of status and plan: hostile text stays text, estimates are judged by what came."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.protocol import Estimate, Launch, Mark, PhaseStatus, Status
from eagle_tui.report.estimates import first_against_now, judged, paused_s
from eagle_tui.report.markdown import plain, table
from eagle_tui.report.plan import Facts, plan_markdown
from eagle_tui.report.status import status_markdown

SCENE = Path(__file__).parents[1] / "ui" / "data" / "kimi.json"
HOUR = 3600.0


@pytest.fixture(scope="module")
def kimi() -> Status:
    return Status.from_json(json.loads(SCENE.read_text()))


def cells(line: str) -> list[str]:
    """The cells of a table's line, split where Markdown splits."""
    return [part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]]


@given(st.text())
def test_no_text_breaks_out_of_its_cell(text: str) -> None:
    lines = table(["a", "-b"], [[text, 1], ["x", 2]])
    assert len(lines) == 4
    assert all(len(cells(line)) == 2 for line in lines)
    assert all(len(line.splitlines()) == 1 for line in lines)
    safe = plain(text)
    assert "\x1b" not in safe and not re.search(r"(?<!\\)[`<>|*\[]", safe.replace("\\\\", ""))


def test_names_stay_readable() -> None:
    assert plain("b1_glaive and moonshotai/Kimi-K2.5") == "b1_glaive and moonshotai/Kimi-K2.5"
    assert plain("_x_ <b>\n# no") == "\\_x\\_ \\<b\\> \\# no"


def test_a_table_is_aligned() -> None:
    assert table(["name", "-n"], [["a", 1], ["long name", 10]]) == [
        "| name      |   n |",
        "| --------- | --: |",
        "| a         |   1 |",
        "| long name |  10 |",
    ]
    assert table(["name"], []) == []


def estimate(done: int, elapsed: float, left: float, phase: str = "generate") -> Estimate:
    eta_s = (0.8 * left, left, 1.25 * left)
    return Estimate(
        phase=phase, at=elapsed, attempt=1, elapsed_s=elapsed, done=done, total=1000, eta_s=eta_s
    )


def phase(state: str, elapsed: float, left: float | None = None) -> PhaseStatus:
    eta_s = None if left is None else (0.8 * left, left, 1.25 * left)
    return PhaseStatus.model_validate(
        {"name": "generate", "state": state, "elapsed_s": elapsed, "eta_s": eta_s}
    )


def test_estimates_against_what_came() -> None:
    kept = [estimate(10, 0.1 * HOUR, 10 * HOUR), estimate(500, 9 * HOUR, 10 * HOUR)]
    first, half = judged(phase("done", 20 * HOUR), kept)
    assert first.verdict == "98% too low" and half.verdict == "inside the range"
    assert half.share == 0.5
    short = judged(phase("done", 4 * HOUR), kept)[0]
    assert short.verdict == "60% too high"
    assert judged(phase("running", HOUR, HOUR), kept)[0].verdict == ""
    assert judged(phase("done", HOUR), [estimate(1, 1, 1, "merge")]) == []


def test_only_the_last_go_counts() -> None:
    kept = [estimate(10, 1, HOUR), estimate(900, 2, HOUR), estimate(5, 3, HOUR)]
    assert [e.at for e in judged(phase("running", 4), kept)] == [3]


def test_first_estimate_in_a_few_words() -> None:
    kept = [estimate(10, 0.0, 10 * HOUR)]
    assert first_against_now(phase("done", 9 * HOUR), kept) == (
        "first 8–12 h, took 9h 00m: inside the range"
    )
    assert first_against_now(phase("running", HOUR, 20 * HOUR), kept) == "first 8–12 h, now 17–26 h"
    assert first_against_now(phase("running", HOUR), []) == ""


def test_paused_time() -> None:
    marks = [
        Mark(id=i, at=at, kind=kind, text="")
        for i, (at, kind) in enumerate(
            [(10, "pause"), (15, "pause"), (20, "resume"), (25, "resume"), (90, "pause")]
        )
    ]
    assert paused_s(marks, 0, 100) == 20
    assert paused_s(marks, 12, 95) == 13


def test_the_status_as_it_would_be_typed(kimi: Status) -> None:
    text = status_markdown(kimi, [estimate(10, HOUR, 10 * HOUR)])
    lines = text.splitlines()
    row = next(cells(line) for line in lines if line.startswith("| b2_opencodeinstruct"))
    head = next(cells(line) for line in lines if line.startswith("| dataset"))
    got = dict(zip(head, row, strict=True))
    assert got["done"] == "3,489/14,714" and got["state"] == "running" and got["cut"] == "77"
    assert got["mean"] == "1.62k" and got["left"] == "2.2–3.9 h"
    assert any(line.startswith("| generate") and "first" in line for line in lines)
    assert text.startswith("## kimi-k25-eagle3")


def test_the_plan_has_all_its_parts(kimi: Status) -> None:
    done = kimi.phases[1].model_copy(update={"state": "done", "elapsed_s": 12 * HOUR})
    status = kimi.model_copy(update={"phases": (kimi.phases[0], done, *kimi.phases[2:])})
    launch = Launch(
        server="server", attempt=2, launched_at=status.at - 60, ready_at=status.at - 20, start_s=40,
        outcome="running", settings={"mem-fraction-static": "0.88", "x": None},
        effect="862 → 1,187 tok/s (+38 % ± 4)",
    )  # fmt: skip
    facts = Facts(
        status,
        [estimate(10, HOUR, 10 * HOUR)],
        [Mark(id=1, at=status.at - 50, kind="retune", text="mem-fraction-static 0.85 → 0.88")],
        [launch],
    )
    text = plan_markdown(facts)
    for words in (
        "# kimi-k25-eagle3: plan and progress", "## Estimates against actuals", "inside the range",
        "mem-fraction-static 0.88, x left out", "862 → 1,187 tok/s", "retune",
    ):  # fmt: skip
        assert words in text, words
    assert plan_markdown(Facts(Status(at=1.0, run=kimi.run, supervisor=kimi.supervisor)))
