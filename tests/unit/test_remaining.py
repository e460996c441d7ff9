"""The time of phases that wait, and of the run."""

from __future__ import annotations

import pytest

from eagle_tui.eta import Range
from eagle_tui.protocol import PhaseState, PhaseStatus
from eagle_tui.supervisor.remaining import Timeline, not_begun, run_left


def timeline(*told: tuple[float, int, int], started: float = 0.0) -> Timeline:
    found = Timeline(started)
    for at, done, total in told:
        found.progress(at, {"done": done, "total": total})
    return found


def test_pace_of_an_attempt_with_its_start() -> None:
    pace = timeline((40.0, 0, 1000), (60.0, 200, 1000), (90.0, 500, 1000)).pace()
    assert pace is not None
    assert (pace.start_s, pace.rate, pace.left) == (40.0, 10.0, 500.0)
    # One that was resumed began with what was there.
    pace = timeline((1040.0, 500, 1000), (1090.0, 1000, 1000), started=1000.0).pace()
    assert pace is not None
    assert (pace.start_s, pace.rate) == (40.0, 10.0)
    assert pace.left == 1000  # finished: what is done again is all of it


def test_phases_that_count_their_items_again_for_each_variant() -> None:
    """The benchmark goes over its prompts without and with the drafter."""
    told = [(10.0 * n, (n % 5) * 4, 16) for n in range(15)]
    pace = timeline(*told).pace()
    assert pace is not None
    assert pace.rate == pytest.approx(48 / 140)
    assert pace.left == 48


def test_no_pace_of_too_little_or_of_nonsense() -> None:
    assert timeline().pace() is None
    assert timeline((0.0, 0, 9), (4.0, 9, 9)).pace() is None
    assert timeline((0.0, 5, 9), (60.0, 5, 9)).pace() is None
    found = Timeline()
    found.progress(1.0, {"done": None, "total": 3})
    assert found.pace() is None
    set_back = timeline((100.0, 0, 90), (110.0, 50, 90), (50.0, 60, 90), (60.0, 70, 90)).pace()
    assert set_back is not None and set_back.rate == 1.0


def test_only_what_was_measured_is_estimated_and_a_merge() -> None:
    pace = timeline((40.0, 0, 1000), (90.0, 500, 1000)).pace()
    low, middle, high = not_begun("extract", pace, None) or (0, 0, 0)
    assert low < middle == 40.0 + 50.0 < high
    assert not_begun("extract", None, 1000.0) is None
    assert not_begun("merge", None, None) is None
    low, middle, high = not_begun("merge", None, 88_088.0) or (0, 0, 0)
    assert 30 < low < 60 and middle == pytest.approx(181, abs=1) and 600 < high < 800


def phase(name: str, state: PhaseState, left: Range | None = None) -> PhaseStatus:
    return PhaseStatus(name=name, state=state, eta_s=left)


HOUR = (3000.0, 3600.0, 4400.0)
MINUTE = (60.0, 60.0, 60.0)


def test_the_run_takes_as_long_as_its_phases_and_names_those_not_known() -> None:
    done, merge = phase("prepare", "done"), phase("merge", "pending", MINUTE)
    running, extract = phase("generate", "running", HOUR), phase("extract", "pending")
    assert run_left([done, running]) == (HOUR, ())
    assert run_left([done, running, merge, extract]) == ((3060.0, 3660.0, 4460.0), ("extract",))
    assert run_left([done]) == (None, ())


def test_the_run_is_unknown_while_what_is_next_or_generation_is() -> None:
    merge, extract = phase("merge", "pending", MINUTE), phase("extract", "pending", HOUR)
    paused = phase("generate", "paused")
    assert run_left([paused, merge, extract]) == (None, ("generate",))
    preparing = phase("prepare", "running", MINUTE)
    assert run_left([preparing, phase("generate", "pending"), merge])[0] is None
    assert run_left([phase("extract", "failed"), merge]) == (None, ("extract",))
