"""The datasets screen: sort, filter, one dataset in detail."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.protocol import HISTOGRAM_EDGES, DatasetStatus
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.dataset_order import SORTS, arranged, next_sort
from eagle_tui.ui.screens.datasets import DatasetsScreen
from eagle_tui.ui.widgets.dataset_detail import joined, offered_caps

MakeApp = Callable[..., EagleApp]


def _row(name: str, **parts: Any) -> DatasetStatus:
    return DatasetStatus(name=name, **parts)


def test_sorting_puts_the_unknown_last_and_filters_by_name_and_state() -> None:
    rows = [
        _row("b_one", rate_per_min=3.0, state="running"),
        _row("a_two", rate_per_min=None),
        _row("c_three", rate_per_min=9.0, state="running"),
    ]
    by_rate = next(sort for sort in SORTS if sort.column == "rate")
    assert [row.name for row in arranged(rows, by_rate, "")] == ["c_three", "b_one", "a_two"]
    by_name = next(sort for sort in SORTS if sort.column == "name")
    assert [row.name for row in arranged(rows, by_name, "")] == ["a_two", "b_one", "c_three"]
    assert [row.name for row in arranged(rows, SORTS[0], "RUN thr")] == ["c_three"]
    sort = SORTS[0]
    for _ in SORTS:
        sort = next_sort(sort)
        assert len(arranged(rows, sort, "")) == 3
    assert sort is SORTS[0]


@given(st.lists(st.integers(0, 9999), min_size=26, max_size=26).filter(any), st.integers(1, 40))
def test_joined_bars_lose_no_response_and_touch(bars: list[int], most: int) -> None:
    found = joined(bars, most)
    assert len(found) <= most and sum(item.count for item in found) == sum(bars)
    for before, after in pairwise(found):
        assert before.high == after.low
    assert all(item.high is not None for item in found[:-1])
    assert found[-1].high is None or found[-1].high in HISTOGRAM_EDGES


@given(st.integers(0, 10**8), st.integers(1, 10**5), st.floats(1, 20_000))
def test_caps_offered_lie_between_what_is_there_and_all(
    tokens: int, prompts: int, mean: float
) -> None:
    row = _row("x", tokens=tokens, prompts=prompts, tokens_mean=mean, cap_tokens=5 * 10**7)
    for offer in offered_caps(row):
        assert tokens < offer < min(mean * prompts, 5 * 10**7)
    assert offered_caps(_row("x", kind="native", prompts=5, tokens_mean=3.0)) == []


async def test_sort_filter_and_the_way_back(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("2")
        await ui.until(pilot, lambda: isinstance(app.screen, DatasetsScreen))
        table = app.screen.table
        await ui.until(pilot, table.keys)
        assert table.keys()[0] == "a1_regen_math"
        await pilot.press("S")
        await ui.until(pilot, lambda: table.sort.column == "name")
        for _ in range(5):
            await pilot.press("S")
        await ui.until(pilot, lambda: table.keys()[0] == "b2_opencodeinstruct")
        await pilot.press("slash", *"run")
        await ui.until(pilot, lambda: table.keys() == ["b2_opencodeinstruct", "b3_magicoder"])
        await pilot.press("enter", "down")
        assert table.selected == "b3_magicoder" and app.screen.selected_dataset() == table.selected
        await pilot.press("1", "2")
        await ui.until(pilot, lambda: isinstance(app.screen, DatasetsScreen))
        assert len(table.keys()) == 2, "a screen keeps its filter while another is shown"
        await pilot.press("q")
        await ui.until(pilot, lambda: len(table.keys()) == 10)
        # What is typed is never markup: this once ended the screen.
        await pilot.press("slash", *"[/ [b", "enter")
        await ui.until(pilot, lambda: table.keys() == [])
        await pilot.press("q")
        await ui.until(pilot, lambda: len(table.keys()) == 10)
        await pilot.press("q")
        await ui.until(pilot, lambda: app.screen is app.main)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_one_dataset_in_detail(
    size: tuple[int, int], client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=size) as pilot:
        await ui.ready(pilot)
        await pilot.press("2")
        await ui.until(pilot, lambda: isinstance(app.screen, DatasetsScreen))
        await ui.until(pilot, app.screen.table.keys)
        await pilot.press("enter")
        await ui.until(pilot, lambda: app.screen.detail.caps.offers)
        assert [args["tokens"] for verb, args in client.asked if verb == "cap"][:3] == [
            8_900_000, 7_800_000, 6_700_000,
        ]  # fmt: skip
        text = ui.text(app)
        for shown in ("responses per minute", "tokens per response", "96%", "5.66M of 10.0M"):
            assert shown in text, text
        assert "saves 5.2–8.9 h" in " ".join(text.split())
        if size[1] > 30:
            assert "no answer in 600 s (1 given up)" in text
        await ui.until(pilot, lambda: "nothing measured here" not in ui.text(app))
        assert client.sent == []
        await pilot.press("q")
        await ui.until(pilot, lambda: not app.screen.has_class("-detail"))


async def test_a_read_only_screen_asks_for_no_previews(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client, readonly=True)
    async with ui.run(app, size=(120, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("2", "enter", "down")
        await pilot.pause(0.2)
        assert client.asked == []


async def test_failures_of_another_kind_are_never_shown_as_this_one(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(160, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.press("2")
        await ui.until(pilot, lambda: "no answer in 600 s" in ui.text(app))
        await pilot.press("down")
        await ui.until(pilot, lambda: "no answer in 600 s" not in ui.text(app))
