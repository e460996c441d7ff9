"""Metric history: rows, tiers, what a question gets, what is kept and how large it is."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import history, series
from eagle_tui.history import TIERS, Recorder
from eagle_tui.protocol import Status
from eagle_tui.supervisor.store import Store

SCENE = Path(__file__).parents[1] / "ui" / "data" / "kimi.json"
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
CELLS = st.tuples(st.integers(1, 0xFFFF), NUMBERS, NUMBERS, NUMBERS)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "state.sqlite")


@given(st.dictionaries(st.integers(0, 0xFFFF), CELLS, max_size=50))
def test_a_row_comes_back_as_it_was(cells: dict[int, history.Cell]) -> None:
    row = history.pack(cells)
    assert history.unpack(row) == cells
    for number, cell in cells.items():
        assert history.unpack_one(row, number) == cell
    assert history.unpack_one(row, 0x10000) is None


def test_a_broken_row_is_said_to_be_one() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        history.unpack(b"nonsense")


@given(
    st.lists(st.tuples(st.integers(0, 5000), CELLS), max_size=60, unique_by=lambda p: p[0]),
    st.sampled_from([2, 7, 60]),
)
def test_folding_loses_no_value_and_no_extreme(
    points: list[tuple[int, history.Cell]], step: int
) -> None:
    folded = history.fold(sorted(points), step)
    assert [t for t, _ in folded] == sorted({t // step * step for t, _ in points})
    assert sum(cell[0] for _, cell in folded) == sum(cell[0] for _, cell in points)
    if points:
        assert min(c[2] for _, c in folded) == min(c[2] for _, c in points)
        assert max(c[3] for _, c in folded) == max(c[3] for _, c in points)


@given(st.floats(0, 1e7), st.floats(0.1, 1e5))
def test_the_tier_reaches_back_and_is_no_finer_than_needed(back: float, step_s: float) -> None:
    now = 2e9
    tier = history.tier_for(now - back, step_s, now)
    kept = dict(TIERS)[tier]
    assert kept is None or back <= kept + history.SLACK_S
    finer = [s for s, k in TIERS if s < tier and (k is None or back <= k)]
    assert tier <= step_s or not finer, "no tier is coarser than asked while a finer one would do"


def test_history_in_tiers(store: Store) -> None:
    recorder = Recorder(store)
    for second in range(1200):
        recorder.add(99_960.0 + second, {"tok_s": float(second), "gap": None})
    now = 99_960.0 + 1199
    fine = recorder.query("tok_s", now - 60, 1.0, now)
    assert fine.step_s == 1.0 and fine.points[-1].mean == 1199.0
    # Asked from before the run: ten-second buckets reach back six hours.
    assert recorder.query("tok_s", now - 6 * 3600, 1.0, now).step_s == 10.0
    coarse = recorder.query("tok_s", now - 86400, 1.0, now)
    assert coarse.step_s == 60.0
    bucket = next(p for p in coarse.points if p.t == 100_020.0)
    assert (bucket.low, bucket.high, bucket.mean) == (60.0, 119.0, 89.5)
    assert recorder.query("gap", 0.0, 1.0, now).points == ()
    assert list(store.series()) == ["tok_s"], "what was never known has no name"
    oldest = next(iter(store.ticks(1, 0.0, now)))[0]
    assert oldest >= now - 900 - history.DROP_S, "old fine buckets are dropped"


def test_a_window_that_ended_long_ago(store: Store) -> None:
    recorder = Recorder(store)
    for second in range(0, 7200, 10):
        recorder.add(360_000.0 + second, {"x": float(second)})
    now = 367_190.0
    found = recorder.query("x", 360_600.0, 45.0, now, until=361_200.0)
    assert found.step_s == 40.0, "a whole multiple of a tier"
    assert all(p.t % 40 == 0 and 360_560 <= p.t <= 361_200 for p in found.points)
    assert [p.t for p in found.points] == sorted(p.t for p in found.points)
    one = next(p for p in found.points if p.t == 360_800.0)
    assert (one.mean, one.low, one.high) == (815.0, 800.0, 830.0)


def test_a_new_supervisor_goes_on_with_the_bucket_of_the_old(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    store = Store(path)
    first = Recorder(store)
    first.add(600.0, {"x": 10.0, "only before": 1.0})
    first.flush(600.0)
    store.close()
    second = Recorder(Store(path))
    second.add(610.0, {"x": 30.0})
    (bucket,) = second.query("x", 0.0, 60.0, 8 * 86400.0).points
    assert (bucket.mean, bucket.low, bucket.high) == (20.0, 10.0, 30.0)
    (other,) = second.query("only before", 0.0, 60.0, 8 * 86400.0).points
    assert other.mean == 1.0


def test_a_disk_that_stays_full_costs_no_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(store)
    recorder.add(1000.0, {"x": 1.0})

    def full(rows: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store, "put_ticks", full)
    for second in range(2000):
        with contextlib.suppress(sqlite3.OperationalError):
            recorder.add(1001.0 + second, {"x": float(second)})
    assert len(recorder._open) < len(TIERS) * history.UNWRITTEN + 20
    monkeypatch.undo()
    recorder.flush(3001.0)
    points = recorder.query("x", 2950.0, 1.0, 3001.0).points
    assert [p.mean for p in points] == [float(n) for n in range(1949, 2000)]


def test_numbers_that_are_none_are_left_out(store: Store) -> None:
    recorder = Recorder(store)
    recorder.add(10.0, {"x": math.nan, "y": math.inf, "z": 1e300, "ok": 2.0})
    assert list(store.series()) == ["ok"]


@pytest.fixture
def kimi() -> Status:
    return Status.from_json(json.loads(SCENE.read_text()))


def test_every_figure_worth_a_chart_has_a_series(kimi: Status) -> None:
    found = series.values(kimi)
    server = kimi.servers[0]
    for name in ("tok_s", "running", "queued", "kv_usage", "cache_hit"):
        assert found[f"server.{server.name}.{name}"] == getattr(server, name)
    gpu = kimi.gpus[3]
    assert gpu.mem_used is not None and gpu.mem_total is not None
    assert found["gpu3.mem"] == gpu.mem_used / gpu.mem_total
    assert found["gpu3.power_w"] == gpu.power_w and found["gpu3.temp_c"] == gpu.temp_c
    data = kimi.datasets[4]
    assert found[f"dataset.{data.name}.done"] == data.done
    assert found["disk_free"] == kimi.host.disk_free
    assert all(v is None or math.isfinite(v) for v in found.values())


def test_a_day_stays_small() -> None:
    """Rows that hardly compress, of 100 series, at the rate at which each tier makes them."""
    rows = {}
    for t in range(20):
        cells = {
            i: (60, *(float(f"{hash((t, i, k)) % 10**7}.{k}") for k in (1, 2, 3)))
            for i in range(100)
        }
        rows[t] = len(history.pack(cells))  # type: ignore[arg-type]
    row = sum(rows.values()) / len(rows)
    kept = sum(row * ((k or 86400.0) / step) for step, k in TIERS)
    assert kept < 30e6, "all tiers, with one day of the last"
    assert row * 86400 / TIERS[-1][0] < 0.3e6, "what each further day adds"
