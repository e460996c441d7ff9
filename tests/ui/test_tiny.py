"""A terminal of a few cells: nothing can be read there, and nothing may fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.ui.grid import choose_columns
from eagle_tui.ui.screens.overview import OverviewScreen
from eagle_tui.ui.widgets.datasets import COLUMNS


@given(st.permutations([c.key for c in COLUMNS]), st.integers(0, 60), st.integers(1, 40))
def test_the_first_column_is_always_there(order: list[str], width: int, first: int) -> None:
    chosen = choose_columns(COLUMNS, order, width, {order[0]: first})
    assert 1 <= chosen[order[0]] <= first
    assert sum(chosen.values()) + len(chosen) <= max(width, 2)


@pytest.mark.parametrize("size", [(1, 1), (7, 8)])
async def test_every_screen_and_dialog(
    client: Any, make_app: Any, ui: Any, size: tuple[int, int]
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.resize_terminal(*size)
        await pilot.press(*"2345678", "down", "pagedown", "1", "p", "x", "escape", "m", "escape")
        await pilot.resize_terminal(100, 30)
        await ui.until(pilot, lambda: isinstance(app.screen, OverviewScreen))
        assert client.sent == []
