"""The supervisor's sums of what the generate worker tells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from eagle_tui.clock import Clock
from eagle_tui.rundir.jsonl import Appender
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.dataset_figures import FINE, DatasetFigures, LastHour
from eagle_tui.supervisor.figures import Figures


class Hand(Clock):
    """A clock that is moved by hand."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1_800_000_000.0 + self.now


def test_the_last_hour_goes_on_when_the_clock_was_set_back() -> None:
    hour = LastHour()
    now = 1_000_000.0
    for minute in range(200):
        hour.add(now + 60 * minute, 7, 0)
    assert len(hour._buckets) == 60, "bounded, however long it runs"
    back = now - 86_400
    for second in range(3):
        hour.add(back + second, 5, 0)
    assert dict(hour.total(back + 3).lengths) == {5: 3}


def test_last_hour_is_bounded_and_forgets() -> None:
    hour = LastHour()
    for second in range(0, 7200, 10):
        hour.add(second, 100 + second // 3600, 7 if second % 20 == 0 else 0)
    found = hour.total(7199.0)
    assert set(found.lengths) == {101} and sum(found.lengths.values()) == 360
    assert (found.reasoned, found.reasoning_tokens) == (180, 180 * 7)
    assert len(hour._buckets) <= 61
    assert not hour.total(7200.0 + 3600.0).lengths


def test_results_baselines_and_endpoints_add_up(tmp_path: Path) -> None:
    run, clock = RunDir.at(tmp_path), Hand()
    figures = Figures(run, clock)
    log = Appender(run.events("generate", 1))
    log.append(
        {"e": "dataset", "at": 1.0, "name": "b1", "prompts": 9, "states": {"complete": 2},
         "tokens": 30, "lengths": {"10": 1, "20": 1}, "reasoned": 1, "reasoning_tokens": 4}
    )  # fmt: skip
    result = {"e": "result", "at": clock.wall(), "ds": "b1", "id": "x", "pt": 3, "s": 1.0}
    log.append({**result, "state": "complete", "ct": 40, "rt": 8, "stored": True})
    log.append({**result, "state": "truncated", "ct": 0, "rt": 0, "stored": False})
    log.append({**result, "state": "aborted", "ct": 0, "rt": 0, "stored": False})
    log.append({**result, "state": "failed", "ct": 0, "rt": 0})  # as an older worker told it
    figures.follow("generate", 1)
    figures.poll()
    data = figures.dataset("b1")
    assert data.states == {"complete": 3, "truncated": 1, "aborted": 1, "failed": 1}
    assert (data.tokens, data.reasoned, data.reasoning_tokens) == (70, 2, 12)
    assert dict(data.hour.total(clock.wall()).lengths) == {40: 1}

    for step in range(6):
        clock.now += 5.0
        load = {"in_flight": 7, "limit": None, "answers": 10 * step, "tokens": 500 * step,
                "failures": step}  # fmt: skip
        log.append({"e": "load", "at": 1.0, "endpoints": {"s0": load}})
        figures.poll()
    seen = figures.endpoints["s0"]
    assert (seen.in_flight, seen.failures, seen.limit) == (7, 5, None)
    assert seen.tokens.rate() == 100.0 and seen.answers.rate() == 2.0
    log.append({"e": "load", "at": 1.0, "endpoints": {}})
    figures.poll()
    assert figures.endpoints == {}
    log.close()


def result(clock: Hand, tokens: int, dataset: str = "b1") -> dict[str, object]:
    return {"e": "result", "at": clock.wall(), "ds": dataset, "id": "x", "state": "complete",
            "pt": 3, "ct": tokens, "rt": 0, "s": 1.0, "stored": True}  # fmt: skip


def load(tokens: int) -> dict[str, object]:
    told = {"in_flight": 1, "limit": None, "answers": 0, "tokens": tokens, "failures": 0}
    return {"e": "load", "at": 1.0, "endpoints": {"s0": told}}


def test_the_sum_over_datasets_follows_results_and_what_a_worker_finds(tmp_path: Path) -> None:
    run, clock = RunDir.at(tmp_path), Hand()
    figures = Figures(run, clock)
    log = Appender(run.events("generate", 1))
    for name, tokens in (("b1", 10), ("b2", 20)):
        log.append({"e": "dataset", "at": 1.0, "name": name, "prompts": 9, "tokens": tokens,
                    "states": {"complete": 1}, "lengths": {str(tokens): 1}})  # fmt: skip
    log.append(result(clock, 40))
    figures.follow("generate", 1)
    total = figures.total
    assert (total.tokens, total.done, dict(total.lengths)) == (70, 3, {10: 1, 20: 1, 40: 1})
    assert total.summary().mean == 70 / 3
    # An order to retry took the response of 40 tokens away again.
    log.append({"e": "dataset", "at": 1.0, "name": "b1", "prompts": 9, "tokens": 10,
                "states": {"complete": 1}, "lengths": {"10": 1}})  # fmt: skip
    figures.poll()
    assert (total.tokens, total.done, dict(total.lengths)) == (30, 2, {10: 1, 20: 1})
    assert total.summary().mean == 15
    log.close()


def test_quantiles_may_lag_while_many_responses_come_and_are_exact_at_the_end() -> None:
    figures = DatasetFigures(lengths=Counter({100: 10 * FINE}))
    assert figures.summary().mean == 100
    for _ in range(10):
        figures.add({"state": "complete", "ct": 1100, "at": 0.0})
    assert figures.summary().mean == 100, "ten more of five thousand do not show"
    exact = figures.summary(exact=True)
    assert exact.mean == pytest.approx((100 * 10 * FINE + 11000) / (10 * FINE + 10))
    assert figures.summary() == exact
    for _ in range(11):
        figures.add({"state": "complete", "ct": 1100, "at": 0.0})
    mean = figures.summary().mean
    assert mean is not None and exact.mean is not None and mean > exact.mean


def test_answers_that_are_begun_are_known_and_forgotten_on_reopening(tmp_path: Path) -> None:
    run, clock = RunDir.at(tmp_path), Hand()
    figures = Figures(run, clock)
    log = Appender(run.events("generate", 1))
    log.append({"e": "begun", "at": 1.0, "datasets": {"b1": {"64": 3, "128": 1}, "b2": {}}})
    figures.follow("generate", 1)
    assert figures.dataset("b1").begun == {64: 3, 128: 1} and not figures.dataset("b2").begun
    log.append({"e": "dataset", "at": 1.0, "name": "b1", "prompts": 9})
    figures.poll()
    assert not figures.dataset("b1").begun
    log.close()


def test_tokens_in_flight_count_in_the_rate_and_what_was_before_does_not(tmp_path: Path) -> None:
    """A supervisor that comes back reads of millions of tokens at once: that is no speed."""
    run, clock = RunDir.at(tmp_path), Hand()
    figures = Figures(run, clock)
    log = Appender(run.events("generate", 1))
    for tokens in (0, 10**6, 2 * 10**6):
        log.append(load(tokens))
    log.append({"e": "flow", "at": 1.0, "mode": "running", "in_flight": {"b1": 1}})
    figures.follow("generate", 1)
    for step in range(1, 7):
        figures.poll()
        clock.now += 5.0
        log.append(load(2 * 10**6 + 500 * step))
    figures.poll()
    assert figures.produced.rate() == 100.0
    assert figures.endpoints["s0"].tokens.rate() == 100.0
    assert figures.total.token_rate.rate() == 0.0  # no answer is whole
    # Another worker counts from zero.
    log.append(load(250))
    clock.now += 5.0
    figures.poll()
    assert figures.produced.rate(5.0) == 50.0
    log.close()


def test_a_line_of_a_failing_disk_does_not_reach_the_status(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    log = Appender(run.events("merge", 1))
    log.append({"e": "progress", "at": 1.0, "done": 3, "total": 9, "unit": "rows"})
    for done, total in (("x", 9), (4, []), (True, 9), (5.5, 9)):
        log.append({"e": "progress", "at": 2.0, "done": done, "total": total, "unit": "rows"})
    figures = Figures(run, Hand())
    view = figures.follow("merge", 1)
    figures.poll()
    assert (view.done, view.total, view.bad_lines) == (3, 9, 4)
