"""The time axis: windows, tracks of metrics, marks; what charts do with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.protocol import History, HistoryPoint, Mark, Status
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.past import LIVE_S, RESOLUTION, Past, Track
from eagle_tui.ui.window import (
    DEFAULT_SPAN_S,
    SPANS_S,
    Window,
    axis,
    fitting,
    mark_cells,
    older_mark,
)

NOW = 1_800_000_000.0  # Fri Jan 15 2027, 08:00:00 UTC
MakeApp = Callable[..., EagleApp]


def _mark(id: int, at: float, kind: str = "pause") -> Mark:
    return Mark(id=id, at=at, kind=kind, text=f"mark {id}")


# Windows


@given(st.lists(st.sampled_from(["in", "out", "left", "right", "now"]), max_size=60))
def test_a_window_never_leaves_what_there_is(keys: list[str]) -> None:
    window, first = Window(), NOW - 3 * 86400
    for key in keys:
        if key == "now":
            window = window.to_now()
        elif key in ("in", "out"):
            window = window.zoomed(1 if key == "out" else -1, NOW)
        else:
            window = window.scrolled(1 if key == "right" else -1, NOW, first)
        start, end = window.bounds(NOW)
        assert start < end <= NOW and window.span_s in SPANS_S
        assert window.follows == (end == NOW)
    assert window.to_now().follows


def test_zoom_keeps_the_middle_and_scrolling_comes_back_to_now() -> None:
    past = Window(3600, NOW - 86400)
    wider = past.zoomed(1, NOW)
    assert wider.span_s == 7200
    assert sum(wider.bounds(NOW)) == pytest.approx(sum(past.bounds(NOW)))
    assert Window(3600).zoomed(-1, NOW) == Window(1800), "what follows now goes on following"
    left = Window(3600).scrolled(-1, NOW)
    assert left.bounds(NOW)[1] == NOW - 900
    assert left.scrolled(1, NOW).follows
    assert Window(3600).scrolled(-9, NOW, NOW - 600).bounds(NOW)[1] == NOW, "no data before that"


def test_a_young_run_fills_the_chart() -> None:
    assert fitting(Window(), 40.0).span_s == 60
    assert fitting(Window(), 7 * 86400.0).span_s == DEFAULT_SPAN_S


# Axis


@given(
    st.sampled_from(SPANS_S),
    st.integers(20, 400),
    st.floats(0, 400 * 86400),
    st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))]),
)
def test_labels_stand_where_their_time_is(span: float, cells: int, ago: float, tz: Any) -> None:
    end = NOW - ago
    start = end - span
    line = axis(start, end, cells, tz)
    assert len(line) == cells
    per_cell = span / cells
    for found in re.finditer(r"(?<!\S)(\d\d):(\d\d)(?::(\d\d))?", line):
        if line[max(found.start() - 4, 0) : found.start()].strip():
            continue  # a weekday stands before it
        shown = [int(part or 0) for part in found.groups()]
        at = datetime.fromtimestamp(start + found.start() * per_cell, tz)
        of_day = shown[0] * 3600 + shown[1] * 60 + shown[2]
        off = (at.hour * 3600 + at.minute * 60 + at.second + at.microsecond / 1e6 - of_day) % 86400
        assert off <= per_cell + 1, (line, off)


def test_a_wide_axis_has_many_labels_and_a_long_one_days() -> None:
    assert axis(NOW - 1800, NOW, 100, UTC).split()[:3] == ["07:30", "07:35", "07:40"]
    assert "Jan 12" in axis(NOW - 7 * 86400, NOW, 100, UTC)
    assert "Fri 00:00" in axis(NOW - 86400, NOW, 100, UTC), "midnight says which day begins"


# Marks


def test_marks_fall_into_cells_and_are_chosen_from_the_newest() -> None:
    marks = [_mark(1, NOW - 90), _mark(2, NOW - 50), _mark(3, NOW - 1), _mark(4, NOW + 5)]
    cells = mark_cells(marks, NOW - 100, NOW, 10)
    assert {cell: [m.id for m in found] for cell, found in cells.items()} == {
        1: [1], 5: [2], 9: [3],
    }  # fmt: skip
    shown = marks[:3]
    order, chosen = [], None
    for _ in range(5):
        chosen = older_mark(shown, chosen)
        order.append(chosen)
    assert order == [3, 2, 1, None, 3]
    assert older_mark([], 3) is None


# Tracks


@given(
    st.floats(0.05, 4000),
    st.lists(st.tuples(st.floats(0, 5000), st.floats(0, 1e6)), min_size=1, max_size=40),
)
def test_a_track_gives_back_what_was_put_in(step: float, points: list[tuple[float, float]]) -> None:
    track = Track(step)
    for t, value in points:
        track.add(NOW + t, value, LIVE_S)
    low, high = min(v for _, v in points), max(v for _, v in points)
    values = track.values(NOW + 5010 + 2 * step, (5020 + 3 * step) / 100, 100)
    known = [value for value in values if value is not None]
    assert known and all(low - 1e-6 <= value <= high + 1e-6 * max(high, 1) for value in known)


def test_columns_are_aligned_complete_and_have_gaps() -> None:
    track = Track(1.0)
    for t, value in ((100.0, 1.0), (101.0, 3.0), (120.0, 8.0), (131.0, 9.0)):
        track.add(t, value, 1.0)
    assert track.values(135.0, 10.0, 4) == [None, 2.0, None, 8.0]
    track.forget(120.0)
    assert track.values(135.0, 10.0, 4) == [None, None, None, 8.0]


def test_a_coarse_point_fills_the_time_that_it_speaks_for() -> None:
    track = Track(1.0)
    track.extend([HistoryPoint(t=60.0, mean=7.0, low=0, high=9)], 60.0)
    assert track.values(120.0, 10.0, 7) == [None, *[7.0] * 6]


class _Client:
    def __init__(self) -> None:
        self.asked: list[tuple[str, float, float | None]] = []

    async def history(
        self, series: str, since: float, step_s: float, until: float | None = None
    ) -> History:
        self.asked.append((series, since, until))
        start = int(since // 10 * 10)
        points = [HistoryPoint(t=t, mean=5.0, low=5, high=5) for t in range(start, start + 600, 10)]
        return History(series=series, step_s=10.0, points=tuple(points))

    async def marks(self, since: float) -> list[Mark]:
        return [_mark(1, since + 10)]


def _status(at: float, tok_s: float) -> Status:
    run = {"name": "x", "dir": "/x", "target": "t", "elapsed_s": 86400.0}
    server = {"name": "s", "state": "ready", "tok_s": tok_s}
    return Status.model_validate({"at": at, "run": run, "supervisor": {}, "servers": [server]})


async def test_the_past_is_asked_for_once_and_snapshots_go_on_from_there() -> None:
    past, client = Past(), _Client()
    assert past.lacks(["tok_s"])
    await past.load(client, ["tok_s"], NOW)  # type: ignore[arg-type]
    assert not past.lacks(["tok_s"]) and len(client.asked) == 1
    for second in range(30):
        past.live(_status(NOW + second, 50.0))
    assert past.track("tok_s").values(NOW + 30, 10.0, 3) == [50.0, 50.0, 50.0]
    await past.load(client, ["tok_s"], NOW + 30)  # type: ignore[arg-type]
    assert len(client.asked) == 1
    past.want_marks()
    assert past.lacks(["tok_s"]), "news may mean new marks"


async def test_a_window_in_the_past_stands_still_and_memory_is_bounded() -> None:
    past, client = Past(), _Client()
    past.change(Window(600, NOW - 3600))
    await past.load(client, ["tok_s"], NOW)  # type: ignore[arg-type]
    assert client.asked == [("tok_s", NOW - 4200, NOW - 3600)]
    before = dict(past.track("tok_s").buckets)
    past.live(_status(NOW, 50.0))
    assert past.track("tok_s").buckets == before
    past.change(Window(3600))
    past.track("tok_s")
    for second in range(0, 20_000, 3):
        past.live(_status(NOW + second, 1.0))
    assert len(past.track("tok_s").buckets) <= 1.3 * RESOLUTION


# On the screen


async def test_charts_zoom_scroll_and_come_back(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(160, 40)) as pilot:
        await ui.ready(pilot)
        assert app.past.window == Window(DEFAULT_SPAN_S)
        await pilot.press("minus", "minus")
        await ui.until(pilot, lambda: app.past.window == Window(7200) and "06:30" in ui.text(app))
        await pilot.press("left")
        await ui.until(pilot, lambda: app.past.window.end == NOW - 1800)
        assert "now" not in ui.text(app).split("06:30")[1].split("\n")[0]
        await pilot.press("0")
        await ui.until(pilot, lambda: app.past.window == Window(7200))
        await pilot.press("right")
        await ui.until(pilot, lambda: "go along with now" in ui.text(app))


async def test_marks_are_drawn_and_tell_what_they_are(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    client.all_marks = [
        _mark(1, NOW - 86400), _mark(2, NOW - 900, "retune"), _mark(3, NOW - 300, "crash"),
    ]  # fmt: skip
    app = make_app(client)
    async with ui.run(app, size=(160, 40)) as pilot:
        await ui.ready(pilot)
        await ui.until(pilot, lambda: "┊" in ui.text(app))
        await pilot.press("M")
        await ui.until(pilot, lambda: "07:55:00 mark 3" in ui.text(app))
        await pilot.press("M")
        await ui.until(pilot, lambda: "07:45:00 mark 2" in ui.text(app))
        await pilot.press("M")
        await ui.until(pilot, lambda: "mark 2" not in ui.text(app))
