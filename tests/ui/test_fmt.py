"""Tables of what numbers, times and ranges look like."""

from __future__ import annotations

import math
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import fmt

NOW = 1_800_000_000.0  # Friday 2027-01-15 08:00:00 UTC
BAD = (None, math.nan, math.inf, -math.inf, -1.0, pytest.param(10**400, id="400 digits"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (7, "7"), (999, "999"), (1000, "1.00k"), (1234, "1.23k"), (12_345, "12.3k"),
        (99_950, "100k"), (123_456, "123k"), (999_400, "999k"), (999_600, "1.00M"),
        (10_000_000, "10.0M"), (88_088, "88.1k"), (-0.0, "0"),
        (2.5e9, "2.50G"), (3e12, "3.00T"), (0.4, "0"),
    ],
)  # fmt: skip
def test_count(value: float, text: str) -> None:
    assert fmt.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1024, "1.00 KiB"), (1536, "1.50 KiB"),
        (88.1 * 2**30, "88.1 GiB"), (1000 * 2**30, "0.98 TiB"), (2.1 * 2**40, "2.10 TiB"),
        (2**60, "1024 PiB"),
    ],
)  # fmt: skip
def test_size(value: float, text: str) -> None:
    assert fmt.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.00"), (0.417, "0.42"), (26, "26.0"), (862.4, "862"), (1350, "1.35k"), (9.999, "10.0")],
)
def test_rate(value: float, text: str) -> None:
    assert fmt.rate(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (59.9, "59s"), (60, "1m 00s"), (192, "3m 12s"), (3600, "1h 00m"),
        (7500, "2h 05m"), (86_399, "23h 59m"), (86_400, "1d 0h"), (187_200, "2d 4h"),
    ],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert fmt.duration(seconds) == text


def test_time_that_a_run_was_down_is_told_beside_that_in_which_it_was_up() -> None:
    assert fmt.elapsed(7500.0) == fmt.elapsed(7500.0, 59.0) == "2h 05m"
    assert fmt.elapsed(7500.0, 11_400.0) == "2h 05m (and 3h 10m down)"
    assert fmt.elapsed(None, 60.0) == "– (and 1m 00s down)"
    assert fmt.elapsed(5.0, float("nan")) == "5s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m"), (7200, "2h"), (200_000, "2d")]
)
def test_age(seconds: float, text: str) -> None:
    assert fmt.age(seconds) == text


@pytest.mark.parametrize(
    ("eta", "text"),
    [
        ((40, 50, 70), "40–70 s"), ((60, 80, 130), "1–2 min"), ((720, 900, 1080), "12–18 min"),
        ((8100, 9900, 14_100), "2.2–3.9 h"), ((61_200, 75_000, 93_600), "17–26 h"),
        ((181_440, 200_000, 293_760), "2.1–3.4 d"), ((1e6, 1.1e6, 1.2e6), "12–14 d"),
        ((3600, 3600, 3600), "60 min"), ((0, 0, 0), "0 s"), ((93_600, 75_000, 61_200), "17–26 h"),
    ],
)  # fmt: skip
def test_eta(eta: tuple[float, float, float], text: str) -> None:
    assert fmt.eta(eta) == text


def test_eta_carries_the_local_time_of_its_middle() -> None:
    assert fmt.eta_finish((61_200, 75_000, 93_600), NOW, UTC) == "17–26 h → Sat 04:50"
    assert fmt.eta_finish((600, 900, 1200), NOW, UTC) == "10–20 min → 08:15"
    assert fmt.eta_finish(None, NOW, UTC) == fmt.NONE
    assert fmt.eta_finish((1.0, math.nan, 2.0), NOW, UTC) == fmt.NONE


@pytest.mark.parametrize(
    ("after", "stamp", "moment"),
    [
        (0, "08:00", "08:00:00"),
        (86_400, "Sat 08:00", "Sat 08:00"),
        (-86_400, "Thu 08:00", "Thu 08:00"),
        (20 * 86_400, "Feb 04 08:00", "Feb 04"),
    ],
)
def test_times_say_as_much_as_is_needed(after: float, stamp: str, moment: str) -> None:
    assert fmt.stamp(NOW + after, NOW, UTC) == stamp
    assert fmt.moment(NOW + after, NOW, UTC) == moment
    assert fmt.clock(NOW, UTC) == "08:00:00"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.004, "<1%"), (0.29, "29%"), (0.9999, "99%"), (1.0, "100%"), (0.999999, "99%")],
)
def test_percent_is_never_100_before_all_is_done(share: float, text: str) -> None:
    assert fmt.percent(share) == text


def test_shares_and_progress() -> None:
    assert fmt.share(5, 10) == 0.5
    assert fmt.share(15, 10) == 1.0
    assert fmt.share(1, 0) is None
    assert fmt.share(None, 10) is None
    assert fmt.progress(4210, 10_000) == "4,210/10,000"
    assert fmt.progress(4210, None) == "4,210"
    assert fmt.progress(None, 10) == "–/10"


@pytest.mark.parametrize(
    "show",
    [
        fmt.exact, fmt.count, fmt.size, fmt.gib, fmt.rate, fmt.decimal, fmt.percent, fmt.duration,
        fmt.age, fmt.clock,
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", BAD)
def test_what_is_no_figure_is_a_dash(show: object, value: float | None) -> None:
    assert callable(show) and show(value) == fmt.NONE


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_float_makes_nonsense(value: float) -> None:
    shown = [
        fmt.exact(value), fmt.count(value), fmt.size(value), fmt.rate(value), fmt.percent(value),
        fmt.duration(value), fmt.age(value), fmt.clock(value), fmt.eta((value, value, value)),
    ]  # fmt: skip
    for text in shown:
        assert "nan" not in text and "inf" not in text and not text.startswith("-")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10M", 10_000_000), ("250k", 250_000), ("250K", 250_000), ("1.5M", 1_500_000),
        ("88088", 88_088), ("88,088", 88_088), ("10_000", 10_000), (" 3 k ", 3000),
        ("2g", 2 * 10**9), (".5k", 500), ("4.1k", 4100),
    ],
)  # fmt: skip
def test_counts_as_people_type_them(text: str, value: int) -> None:
    assert fmt.parse_count(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "M", "ten", "-5", "0", "0k", "1.5", "1e6", "10 MB", "1,00", "nan"],
)
def test_what_is_no_count_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        fmt.parse_count(text)
    with pytest.raises(ValueError, match="too large a count"):
        fmt.parse_count("9" * 400)


def test_what_a_sum_leaves_out() -> None:
    assert fmt.beside(()) == ""
    assert fmt.beside(("extract", "train")) == " + extract, train"
    assert fmt.beside(("merge", "extract", "train", "bench")) == " + 4 phases"
    assert fmt.beside(("extract",), 0) == " + 1 phase"


def test_caps_by_tokens_and_responses() -> None:
    assert fmt.caps(None, None) == "–"
    assert fmt.caps(10_000_000, None) == "10.0M"
    assert fmt.caps(None, 500) == "500 resp."
    assert fmt.caps(10_000_000, 500) == "10.0M, 500 resp."
