"""The time of a replay: runs at a speed, stands, jumps, and never leaves the run."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.clock import ManualClock
from eagle_tui.replay.timeline import SPEEDS, ReplayClock, Timeline, neighbour, parse_at

START, END = 1_000_000.0, 1_086_400.0


def timeline(at: float = START, speed: float = 60.0) -> tuple[ManualClock, Timeline]:
    clock = ManualClock()
    return clock, Timeline(clock, START, END, at, speed)


def test_it_stands_until_it_is_told_to_run() -> None:
    clock, time = timeline()
    clock.advance(10)
    assert (time.now(), time.playing) == (START, False)
    time.play()
    clock.advance(10)
    assert (time.now(), time.playing) == (START + 600, True)
    time.toggle()
    clock.advance(10)
    assert (time.now(), time.playing) == (START + 600, False)


def test_a_change_of_speed_does_not_move_it() -> None:
    clock, time = timeline()
    time.play()
    clock.advance(10)
    time.faster()
    assert (time.now(), time.speed, time.playing) == (START + 600, 120.0, True)
    clock.advance(1)
    assert time.now() == START + 720
    for _ in SPEEDS:
        time.slower()
    assert time.speed == SPEEDS[0]
    for _ in SPEEDS:
        time.faster()
    assert time.speed == SPEEDS[-1]


def test_it_ends_at_the_end_and_plays_from_the_start_again() -> None:
    clock, time = timeline(at=END - 30)
    time.play()
    clock.advance(100)
    assert (time.now(), time.playing) == (END, False)
    time.toggle()
    assert (time.now(), time.playing, time.jumps) == (START, True, 1)


def test_jumps_are_counted_and_a_step_stops() -> None:
    clock, time = timeline()
    time.play()
    time.seek(START + 500)
    clock.advance(1)
    assert (time.now(), time.playing, time.jumps) == (START + 560, True, 1)
    time.step(-10)
    clock.advance(5)
    assert (time.now(), time.playing, time.jumps) == (START + 550, False, 2)


@given(st.lists(st.tuples(st.sampled_from(["seek", "step", "play", "stop", "speed", "wait"]),
                          st.floats(-2e5, 2e5)), max_size=30))  # fmt: skip
def test_it_never_leaves_the_run(moves: list[tuple[str, float]]) -> None:
    clock, time = timeline()
    for what, value in moves:
        if what == "seek":
            time.seek(START + value)
        elif what == "step":
            time.step(value)
        elif what == "speed":
            time.set_speed(value)
        elif what == "wait":
            before = time.now()
            clock.advance(abs(value))
            assert time.now() >= before
        else:
            getattr(time, what)()
        assert START <= time.now() <= END
        assert time.speed > 0


def test_the_clock_of_a_replay() -> None:
    clock, time = timeline(at=START + 5)
    replayed = ReplayClock(clock, time)
    assert (replayed.wall(), replayed.monotonic()) == (START + 5, clock.monotonic())


@given(st.lists(st.floats(0, 100), max_size=20).map(sorted), st.floats(0, 100))
def test_neighbours(times: list[float], now: float) -> None:
    after, before = neighbour(times, now, True), neighbour(times, now, False)
    assert after is None or times[after] > now
    assert before is None or times[before] < now
    assert (after is None) == (not any(t > now for t in times))
    assert (before is None) == (not any(t < now for t in times))


def test_times_as_people_write_them() -> None:
    end = datetime(2026, 11, 30, 14, 0).timestamp()
    start = end - 86400

    def at(text: str) -> datetime:
        return datetime.fromtimestamp(parse_at(text, start, end))

    assert at("2026-11-30 09:20") == datetime(2026, 11, 30, 9, 20)
    assert at("2026-11-29T20:01:02") == datetime(2026, 11, 29, 20, 1, 2)
    assert at("13:59") == datetime(2026, 11, 30, 13, 59)
    assert at("14:30") == datetime(2026, 11, 29, 14, 30), "it was not 14:30 yet"
    assert at("-2h") == datetime(2026, 11, 30, 12, 0)
    assert at("25%") == datetime(2026, 11, 29, 20, 0)
    assert parse_at(str(int(end)), start, end) == end
    with pytest.raises(ValueError, match="is no place in time: write"):
        parse_at("soon", start, end)
