"""What does not fit, and what would: every number that is offered is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.pipeline.extraction.disk import (
    GB,
    Room,
    bytes_needed,
    largest_window,
    why_no_window,
    why_too_big,
)
from eagle_tui.pipeline.extraction.plan import RowRef, to_store

from .world import make_world


def ref(number: int, tokens: int, split: str = "train") -> RowRef:
    return RowRef(f"r{number}", "a", "val" if split == "val" else "train", 0, number, tokens, 1)


ROWS = [ref(n, 1000 + n) for n in range(200)] + [ref(900 + n, 500, "val") for n in range(5)]


def test_what_training_does_by_itself_is_not_stored() -> None:
    assert to_store(ROWS, "stored") == ROWS
    assert [row.id for row in to_store(ROWS, "rolling")] == [f"r{900 + n}" for n in range(5)]
    assert to_store(ROWS, "online") == []


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 10**14))
def test_the_largest_window_fits_and_is_not_much_less(room: int) -> None:
    window = largest_window(room)
    assert 0 < window * GB <= room * (1 + 1e-12)
    assert window * GB > 0.98 * room
    assert float(f"{window:.3g}") == float(f"{window:g}")


def test_no_window_for_no_room() -> None:
    assert largest_window(0) == largest_window(-5) == 0.0


def test_a_refusal_offers_windows_and_nothing_at_all_with_numbers() -> None:
    need = bytes_needed(ROWS, 4096, "bfloat16")
    room = Room(free=need // 3 + 10**6, keep_free=10**6)
    text = why_too_big(
        ROWS, hidden_size=4096, dtype="bfloat16", room=room, stored_rows=0, live=True
    )
    found = re.search(r"extract.rolling_window_gb = (\S+) fits", text)
    assert found and 'extract.mode = "online" stores nothing' in text
    window, held_out = float(found[1]), bytes_needed(to_store(ROWS, "rolling"), 4096, "bfloat16")
    assert why_no_window(held_out, round(window * GB), room) == ""
    more = why_no_window(held_out, round(window * 1.02 * GB), room)
    assert f"extract.rolling_window_gb = {found[1]} fits" in more and "do not fit" in more
    only = why_too_big(
        ROWS, hidden_size=4096, dtype="bfloat16", room=room, stored_rows=0, live=False
    )
    assert "rolling" not in only and "online" not in only and "or make room" in only


def test_where_not_even_the_held_out_rows_fit_online_is_left() -> None:
    text = why_too_big(
        ROWS,
        hidden_size=4096,
        dtype="float8",
        room=Room(free=10**6, keep_free=0),
        stored_rows=0,
        live=True,
    )
    assert "rolling" not in text and 'extract.mode = "online"' in text


def test_the_phase_refuses_a_window_that_the_disk_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 40, mode="rolling", rolling_window_gb=0.0005)
    monkeypatch.setattr("eagle_tui.pipeline.extraction.lead.free_bytes", lambda _: 400_000)
    assert world.extract() == 3
    outcome, reason = world.end()
    assert outcome == "refused" and "A window of 500.0 kB" in reason
    window = float(reason.partition("rolling_window_gb = ")[2].partition(" ")[0])
    world.settings(mode="rolling", rolling_window_gb=window)
    assert world.extract() == 0, world.end()
