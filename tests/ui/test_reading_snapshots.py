"""Pictures of the screens that are read, over the files of a run with hostile texts in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import scene_files
from textual.pilot import Pilot

from eagle_tui.reader.files import RunFiles
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.logs import LogsScreen
from eagle_tui.ui.screens.samples import SamplesScreen

SIZES = [(80, 24), (200, 50)]
KEYS = {
    "samples": ("3", "down"),
    "tokens": ("3", "down", "down", "t"),
    "logs": ("6",),
    "events": ("7", "up", "up", "up"),
}


def shown(app: EagleApp, name: str) -> bool:
    """Whether the screen has drawn what was asked for."""
    screen = app.shown
    if isinstance(screen, SamplesScreen):
        tokens = "predicted" in screen.reader.note
        return bool(screen.reader.lines) and tokens == (name == "tokens")
    if isinstance(screen, LogsScreen):
        return bool(screen.window.lines)
    return isinstance(screen, EventsScreen) and bool(screen.book.entries)


@pytest.mark.parametrize("name", list(KEYS))
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_reading(
    name: str,
    size: tuple[int, int],
    client: Any,
    tmp_path: Path,
    make_app: Callable[..., EagleApp],
    snap_compare: Callable[..., bool],
) -> None:
    client._records = RunFiles(scene_files.build(tmp_path / "run"))
    app = make_app(client, poll_s=3600)

    async def settled(pilot: Pilot[None]) -> None:
        async def until(what: Callable[[], Any]) -> None:
            for _ in range(1500):
                if what():
                    return
                await pilot.pause(0.02)

        first, *more = KEYS[name]
        await until(lambda: app.frame is not None)
        await pilot.press(first)
        await until(lambda: shown(app, "samples"))
        await pilot.press(*more)
        await until(lambda: shown(app, name))
        await pilot.pause(0.3)
        await client.records.close_files()

    assert snap_compare(app, terminal_size=size, run_before=settled)
